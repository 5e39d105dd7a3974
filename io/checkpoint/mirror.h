// Mirrors: folders with further copies of all or some of a model's shards.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/error.h"
#include "io/file.h"

namespace sluice {

struct MirroredShard {
    std::string name;
    File* file;
    uint64_t header_bytes;  // up to the first tensor
};

struct Mirrors {
    std::vector<std::vector<File>> copies;  // of each shard
    std::vector<std::string> notes;         // one line per mirror: where, and how many shards
    // One line per mirror whose shards are all on drives that have them already, so that it makes
    // nothing faster.
    std::vector<std::string> idle;
};

// Opens the files in `locations` (folders, snapshots, Hugging Face ids) with the names of `shards`.
// Each location is a drive, numbered from `drives`, which is advanced. A file that differs in size,
// in its header or in any of 32 samples is an error (corrupt) that names it: reading it for some
// experts would make answers change at random. (`inspect --check --mirror` compares every byte.) A
// location with none of the shards is an error, too (not_found). Afterwards each shard and its
// copies have the same alignment (align_copies).
Result<Mirrors> open_mirrors(std::span<const std::string> locations,
                             std::span<const MirroredShard> shards, Access access,
                             uint32_t& drives);

}  // namespace sluice
