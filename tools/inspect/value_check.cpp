#include "tools/inspect/value_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace {

// U8 means scales if the name says so. Other U8, and I8, are packed FP4, where any byte is valid.
std::optional<Storage> storage_of(const Tensor& tensor) {
    switch (tensor.dtype) {
        case DType::f8_e4m3:
            return Storage::fp8;
        case DType::f8_e8m0:
            return Storage::e8m0;
        case DType::bf16:
            return Storage::bf16;
        case DType::f32:
            return Storage::f32;
        case DType::u8:
            return tensor.name.ends_with(".scale") ? std::optional(Storage::e8m0) : std::nullopt;
        default:
            return {};
    }
}

}  // namespace

ValueCheck::ValueCheck(const Checkpoint& checkpoint) {
    for (const Tensor& tensor : checkpoint.tensors()) {
        if (const auto storage = storage_of(tensor)) watched_.push_back({&tensor, *storage});
    }
    std::sort(watched_.begin(), watched_.end(), [](const Watched& a, const Watched& b) {
        return std::pair(a.tensor->shard, a.tensor->offset) <
               std::pair(b.tensor->shard, b.tensor->offset);
    });
}

void ValueCheck::look(uint32_t shard, uint64_t offset, std::span<const std::byte> bytes) {
    const uint64_t end = offset + bytes.size();
    while (next_ < watched_.size()) {
        const Tensor& tensor = *watched_[next_].tensor;
        const uint64_t tensor_end = tensor.offset + tensor.bytes;
        if (tensor.shard > shard || (tensor.shard == shard && tensor.offset >= end)) return;
        const bool here = tensor.shard == shard && tensor_end > offset;
        if (here && !next_is_bad_) {
            const uint64_t from = std::max(offset, tensor.offset);
            const uint64_t to = std::min(end, tensor_end);
            look_at(watched_[next_], from - tensor.offset, bytes.subspan(from - offset, to - from));
        }
        if (here && tensor_end > end) return;
        ++next_;
        next_is_bad_ = false;
        begun_.clear();
    }
}

// `from`: offset of the bytes in the tensor.
void ValueCheck::look_at(const Watched& watched, uint64_t from, std::span<const std::byte> bytes) {
    const uint64_t size = value_bytes(watched.storage);
    if (!begun_.empty()) {
        const size_t rest = std::min<size_t>(size - begun_.size(), bytes.size());
        const uint64_t element = (from - begun_.size()) / size;
        begun_.insert(begun_.end(), bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(rest));
        bytes = bytes.subspan(rest);
        from += rest;
        if (begun_.size() < size) return;
        judge(watched, element, std::exchange(begun_, {}));
        if (next_is_bad_) return;
    }
    judge(watched, from / size, bytes.first(bytes.size() / size * size));
    const auto left = bytes.last(bytes.size() % size);
    begun_.assign(left.begin(), left.end());
}

void ValueCheck::judge(const Watched& watched, uint64_t element, std::span<const std::byte> bytes) {
    const int64_t bad = first_bad_value(watched.storage, bytes.data(), bytes.size());
    if (bad < 0) return;
    next_is_bad_ = true;
    const std::byte value = bytes[static_cast<uint64_t>(bad) * value_bytes(watched.storage)];
    damaged_.push_back(cat("tensor ", printable(watched.tensor->name), ": element ",
                           element + static_cast<uint64_t>(bad), " ",
                           bad_value_text(watched.storage, value)));
    shards_.insert(watched.tensor->shard);
}

Result<void> check_ids(const Checkpoint& checkpoint) {
    const auto config = parse_config(checkpoint.config_text());
    if (!config) return {};
    const auto model = find_model(config->model_type);
    if (!model || !(*model)->check_weights) return {};
    Weights weights;
    const auto specs = (*model)->describe(*config, weights);
    std::vector<std::vector<int64_t>> tables;
    for (const TensorSpec& spec : specs) {
        if (spec.storage != Storage::i64) continue;
        const Tensor* tensor = checkpoint.find(spec.name);
        if (!tensor || !accepts(spec.storage, tensor->dtype) || tensor->bytes != spec_bytes(spec))
            return {};
        const File& file = checkpoint.shards()[tensor->shard];
        auto& table = tables.emplace_back(tensor->bytes / sizeof(int64_t));
        auto read = file.read(tensor->offset, table.data(), tensor->bytes);
        if (!read) return read;
        *std::get<const int64_t**>(spec.address) = table.data();
    }
    return (*model)->check_weights(checkpoint, *config, weights);
}

}  // namespace sluice
