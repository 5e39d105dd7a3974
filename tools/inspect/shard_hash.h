// `inspect --check`: reads every byte of a checkpoint and hashes every shard, to compare
// checkpoints.
//
// A hash file is text, one line per shard, in shard order:
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
    std::string name;  // of the file, without the folder
    uint64_t bytes = 0;
    uint64_t hash = 0;           // XXH3 of the whole file
    std::optional<Error> error;  // if set, `hash` is invalid
};

struct HashRun {
    std::vector<ShardHash> shards;
    std::string engine;  // of the ring, and the reason if it is not io_uring
    uint64_t bytes = 0;  // read
    double seconds = 0;
};

// Reads the shards one after the other through a ring, several blocks in flight. A shard that
// cannot be read gets an error with its name and the offset; the others are still read. `progress`
// receives the bytes done and returns false to stop (Code::interrupted). `look`, if set, receives
// every byte of every shard (an index into `shards`), in order, until a read of the shard fails.
using LookAtBytes =
    std::function<void(uint32_t shard, uint64_t offset, std::span<const std::byte>)>;
Result<HashRun> hash_shards(const std::vector<File>& shards, const RingOptions& options,
                            const std::function<bool(uint64_t)>& progress,
                            const LookAtBytes& look = {});

inline constexpr std::string_view hash_file_head = "# sluice xxh3-64";
std::string hash_file_text(const std::vector<ShardHash>& shards);
Result<std::vector<ShardHash>> parse_hash_file(std::string_view text);

// One line per difference: another hash, another size, a shard that only one side has. Shards with
// an error are left out.
std::vector<std::string> compare_hashes(const std::vector<ShardHash>& now,
                                        const std::vector<ShardHash>& before);

}  // namespace sluice
