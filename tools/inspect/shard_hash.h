// Reading every byte of a checkpoint and telling it from another by hashes: `inspect --check`.
//
// A hash file is text, one shard a line, in shard order:
//     # sluice xxh3-64
//     0123456789abcdef  2173768  model-00002-of-00012.safetensors
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

struct ShardHash {
    std::string name;  // of the file, without folder
    uint64_t bytes = 0;
    uint64_t hash = 0;           // XXH3 of the whole file
    std::optional<Error> error;  // then `hash` is nothing
};

struct HashRun {
    std::vector<ShardHash> shards;
    std::string engine;  // of the ring, and why it is not io_uring
    uint64_t bytes = 0;  // read
    double seconds = 0;
};

// Reads shards one after the other through a ring, several blocks in flight. A shard that cannot be
// read gets an error that names it and the offset; the others are read all the same. `progress` is
// told bytes done and returns false to stop (Code::interrupted); `look`, if there is one, sees
// every byte of every shard (by its place in `shards`), in order, until a read fails.
using LookAtBytes =
    std::function<void(uint32_t shard, uint64_t offset, std::span<const std::byte>)>;
Result<HashRun> hash_shards(const std::vector<File>& shards, const RingOptions& options,
                            const std::function<bool(uint64_t)>& progress,
                            const LookAtBytes& look = {});

inline constexpr std::string_view hash_file_head = "# sluice xxh3-64";
std::string hash_file_text(const std::vector<ShardHash>& shards);
Result<std::vector<ShardHash>> parse_hash_file(std::string_view text);

// One line a difference: another hash, another size, a shard only here or only there. Shards with
// an error are left out.
std::vector<std::string> compare_hashes(const std::vector<ShardHash>& now,
                                        const std::vector<ShardHash>& before);

}  // namespace sluice
