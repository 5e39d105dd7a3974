// `sluice inspect MODEL`: what is in a checkpoint, where, how it is read, and that it is whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/ring/ring.h"
#include "tools/inspect/shard_hash.h"
#include "tools/inspect/tensor_class.h"
#include "tools/options/options.h"

namespace sluice {

struct InspectOptions {
    CheckpointOptions checkpoint;
    RingOptions ring;
    bool json = false;
    bool check = false;  // read and hash every byte
    // With `check`: written when there is no such file, compared with when there is; what can be
    // neither is refused before the shards are read. Empty: neither.
    std::string hash_file;
};

struct ClassTotal {
    uint64_t tensors = 0, bytes = 0;
};
// [TensorClass]
std::vector<ClassTotal> class_totals(const Checkpoint& checkpoint);

// The listing, as text for a person or as one JSON object. With `hashes`, each shard's hash and the
// read rate are part of it.
std::string inspect_text(const Checkpoint& checkpoint, const HashRun* hashes);
std::string inspect_json(const Checkpoint& checkpoint, const HashRun* hashes);

// Prints the listing on stdout, everything else on stderr. Returns an ExitCode: 0; 3 for a
// checkpoint that does not open or differs from the hash file; 5 for a shard that cannot be read.
int run_inspect(const InspectOptions& options);
int run_inspect(const Options& options);

}  // namespace sluice
