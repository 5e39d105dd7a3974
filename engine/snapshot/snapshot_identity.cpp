#include "engine/snapshot/snapshot_identity.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "io/checksum.h"
#include "io/file.h"
#include "io/text.h"
#include "io/this_build.h"

namespace sluice {

namespace {

constexpr uint64_t tokenizer_max = 1ull << 30;
constexpr uint64_t sample_bytes = 4096;

void add_number(Checksum& sum, uint64_t value) {
    sum.add(&value, sizeof(value));
}

void add_text(Checksum& sum, std::string_view text) {
    add_number(sum, text.size());
    sum.add(text.data(), text.size());
}

// The tensors of one shard, by offset; at least one.
Result<void> add_shard(Checksum& sum, const File& file, std::span<const Tensor> tensors) {
    add_number(sum, file.size());
    add_number(sum, tensors.size());
    for (const Tensor& tensor : tensors) {
        add_text(sum, tensor.name);
        add_number(sum, static_cast<uint64_t>(tensor.dtype));
        add_number(sum, tensor.shape.size());
        for (uint64_t extent : tensor.shape) add_number(sum, extent);
        add_number(sum, tensor.offset);
        add_number(sum, tensor.bytes);
    }
    std::vector<char> sample(std::min(file.size(), sample_bytes));
    const uint64_t middle = (file.size() - sample.size()) / 2;
    if (auto read = file.read(middle, sample.data(), sample.size()); !read) return read;
    sum.add(sample.data(), sample.size());
    return {};
}

// The tensors of each shard that has any, in an order that neither folders nor file names change.
std::vector<std::span<const Tensor>> by_shard(const Checkpoint& checkpoint) {
    std::vector<std::span<const Tensor>> shards;
    const std::span<const Tensor> all(checkpoint.tensors());  // by shard, then by offset
    for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
        while (end < all.size() && all[end].shard == all[begin].shard) ++end;
        shards.push_back(all.subspan(begin, end - begin));
    }
    std::ranges::sort(shards, {}, [](const auto& tensors) { return tensors.front().name; });
    return shards;
}

}  // namespace

Result<uint64_t> model_identity(const Checkpoint& checkpoint) {
    Checksum sum;
    add_text(sum, checkpoint.config_text());
    auto tokenizer = read_text(checkpoint.tokenizer_path(), tokenizer_max);
    if (!tokenizer) return tl::unexpected(tokenizer.error());
    add_text(sum, *tokenizer);
    for (const auto& tensors : by_shard(checkpoint)) {
        const File& file = checkpoint.shards()[tensors.front().shard];
        if (auto r = add_shard(sum, file, tensors); !r) return tl::unexpected(r.error());
    }
    return sum.value();
}

std::string device_kind(std::string_view device, std::string_view name) {
    std::string kind(device.substr(0, device.find(':')));
    constexpr std::string_view capability = "compute ";
    const size_t at = name.find(capability);
    if (at == std::string_view::npos) return kind;
    const size_t end = name.find_first_not_of("0123456789.", at + capability.size());
    return cat(kind, ", ", name.substr(at, end == std::string_view::npos ? end : end - at));
}

Result<SnapshotIdentity> snapshot_identity(const Checkpoint& checkpoint, std::string device,
                                           IndexKeys index_keys) {
    auto model = model_identity(checkpoint);
    if (!model) return tl::unexpected(model.error());
    auto build = executable_checksum();
    if (!build) return tl::unexpected(build.error());
    return SnapshotIdentity{.model = *model,
                            .model_name = checkpoint.folder().filename().string(),
                            .build = *build,
                            .build_name = cat("sluice ", build_version(), " ", build_commit()),
                            .device = std::move(device),
                            .index_keys = index_keys};
}

}  // namespace sluice
