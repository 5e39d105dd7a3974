// Folders with second copies of a model's shards, all or some.
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
    std::vector<std::string> notes;         // one line a mirror: where, and how many shards
    std::vector<std::string> idle;          // one line a mirror all of whose shards their own drive
                                            // has already: no byte comes sooner from there
};

// Opens what `locations` (folders, snapshots, hub ids) have of `shards`, by name, as drives
// number `drives` and up, which is counted on. A file of another size, with another header or with
// other bytes where 32 samples of it are compared is an error (corrupt) naming it: reading it now
// and then would give answers that come and go. (Every byte: `inspect --check --mirror`.) A
// location without any of them is an error too (not_found). Shards and copies have one alignment
// from then on (align_copies).
Result<Mirrors> open_mirrors(std::span<const std::string> locations,
                             std::span<const MirroredShard> shards, Access access,
                             uint32_t& drives);

}  // namespace sluice
