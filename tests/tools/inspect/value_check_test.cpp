#include "tools/inspect/value_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "io/text.h"
#include "tests/support/model_copy.h"
#include "tests/support/temp_folder.h"
#include "tools/inspect.h"

using namespace sluice;
using namespace sluice::model_copy;

namespace {

struct Damage {
    std::string tensor;
    uint64_t element;
    std::string bytes;  // of the value
    std::string said;
};

std::vector<Damage> every_kind() {
    const std::string nan16("\xc0\x7f", 2), infinite16("\x80\x7f", 2), nan32("\x00\x00\xc0\x7f", 4);
    return {
        {"layers.2.ffn.shared_experts.w1.scale", 7, "\xff", "element 7 is scale byte 255 (NaN)"},
        {"layers.2.ffn.experts.5.w2.scale", 0, "\xff", "element 0 is scale byte 255 (NaN)"},
        {"layers.2.ffn.experts.6.w1.scale", 2, "\xfe",
         "element 2 is scale byte 254 (2^127), far above any real weight's"},
        {"layers.3.attn.wq_b.weight", 1001, "\x7f", "element 1001 is a NaN code"},
        {"norm.weight", 3, nan16, "element 3 is not finite"},
        {"layers.1.ffn_norm.weight", 0, infinite16, "element 0 is not finite"},
        {"layers.0.hc_attn_base", 1, nan32, "element 1 is not finite"}};
}

// The lines about a checkpoint whose bytes are passed in pieces of `size`.
std::vector<std::string> lines(const Checkpoint& checkpoint, const std::vector<std::string>& shards,
                               size_t size) {
    ValueCheck check(checkpoint);
    for (uint32_t shard = 0; shard < shards.size(); ++shard) {
        const auto* data = reinterpret_cast<const std::byte*>(shards[shard].data());
        for (size_t at = 0; at < shards[shard].size(); at += size) {
            check.look(shard, at, {data + at, std::min(size, shards[shard].size() - at)});
        }
    }
    return check.damaged();
}

}  // namespace

TEST_CASE("values that cannot be weights are found, however their bytes are cut") {
    auto opened = open_folder(tiny);
    REQUIRE(opened);
    std::vector<std::string> shards;
    for (const File& file : opened->shards()) shards.push_back(read_file(file.path()));
    CHECK(lines(*opened, shards, 1 << 20).empty());
    for (const Damage& damage : every_kind()) {
        const Tensor* tensor = opened->find(damage.tensor);
        REQUIRE_MESSAGE(tensor, damage.tensor);
        const uint64_t at = tensor->offset + damage.element * damage.bytes.size();
        shards[tensor->shard].replace(at, damage.bytes.size(), damage.bytes);
    }
    const auto want = lines(*opened, shards, 1 << 20);
    CHECK(want.size() == every_kind().size());
    for (const Damage& damage : every_kind()) {
        const std::string line = cat("tensor ", damage.tensor, ": ", damage.said);
        CHECK_MESSAGE(std::find(want.begin(), want.end(), line) != want.end(), line);
    }
    for (size_t size : {size_t{1}, size_t{3}, size_t{7}, size_t{4096}, size_t{65537}}) {
        CAPTURE(size);
        CHECK(lines(*opened, shards, size) == want);
    }
}

TEST_CASE("inspect --check refuses tables of ids that every run would refuse") {
    TempFolder root;
    const auto folder = root / "model";
    link_files(v4, folder);
    auto opened = open_folder(folder);
    REQUIRE(opened);
    CHECK(check_ids(*opened));
    const Tensor* table = opened->find("layers.1.ffn.gate.tid2eid");
    REQUIRE(table);
    const auto path = opened->shards()[table->shard].path();
    const std::string whole = read_file(path);
    const auto refused = [&](uint64_t element, int64_t value) {
        std::string bytes = whole;
        std::memcpy(bytes.data() + table->offset + element * 8, &value, 8);
        replace_file(path, bytes);
        auto damaged = open_folder(folder);
        REQUIRE(damaged);
        const auto checked = check_ids(*damaged);
        REQUIRE(!checked);
        CHECK(checked.error().code == Code::corrupt);
        return checked.error().message;
    };
    CHECK(refused(3 * 17 + 2, 12)
              .starts_with(cat(path.string(),
                               ": tensor layers.1.ffn.gate.tid2eid: expert 12 does not exist, "
                               "listed for token 17; ")));
    int64_t first;
    std::memcpy(&first, whole.data() + table->offset, 8);
    CHECK(refused(1, first).find(" is listed twice for token 0; ") != std::string::npos);
}

TEST_CASE("inspect --check refuses values that every run would refuse") {
    Copy copy;
    InspectOptions options;
    options.checkpoint.locations = {copy.folder.string()};
    options.ring.engine = IoEngine::threads;
    options.check = true;
    CHECK(run_inspect(options) == 0);
    auto opened = open_folder(copy.folder);
    REQUIRE(opened);
    const Tensor* tensor = opened->find("layers.2.ffn.experts.5.w2.scale");
    REQUIRE(tensor);
    const fs::path shard = opened->shards()[tensor->shard].path();
    std::string bytes = read_file(shard);
    for (const char scale : {'\xff', '\xfe', '\x90'}) {
        bytes[tensor->offset] = scale;
        copy.damage(shard.filename().string(), bytes);
        CHECK(run_inspect(options) == 3);
    }
    bytes[tensor->offset] = '\x8f';  // 2^16: unlikely, but allowed
    copy.damage(shard.filename().string(), bytes);
    CHECK(run_inspect(options) == 0);
}
