// `sluice inspect MODEL`: what a checkpoint holds, where its files are and how they are read, and
// with --check whether they are intact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "io/checkpoint/checkpoint.h"
#include "io/ring/ring.h"
#include "tools/inspect/shard_hash.h"
#include "tools/options/options.h"

namespace sluice {

struct InspectOptions {
    CheckpointOptions checkpoint;
    RingOptions ring;
    bool json = false;
    bool check = false;  // read and hash every byte
    // With `check`: compared with if the file exists, written if not. A path that can be neither is
    // refused before the shards are read. Empty: neither.
    std::string hash_file;
};

// The classes of the checkpoint's tensors, which are those that `sluice plan` lists.
struct TensorListing {
    // Ends with "unaccounted": the tensors that the model does not know. A config.json that cannot
    // be used leaves one class, "unclassified".
    std::vector<TensorClass> classes;
    std::vector<std::string> unaccounted;  // printable names
    std::string note;                      // why the tensors are unclassified; or empty
};
TensorListing list_tensors(const Checkpoint& checkpoint);

// The listing, as text for a person or as one JSON object. With `hashes`, it has each shard's hash
// and the read rate.
std::string inspect_text(const Checkpoint& checkpoint, const HashRun* hashes);
std::string inspect_json(const Checkpoint& checkpoint, const HashRun* hashes);

// Prints the listing to stdout, everything else to stderr. Returns an ExitCode: 0; 3 for a
// checkpoint that does not open or differs from the hash file; 5 for a shard that cannot be read.
int run_inspect(const InspectOptions& options);
int run_inspect(const Options& options);

}  // namespace sluice
