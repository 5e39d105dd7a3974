// What a snapshot's header says of the model and the build (snapshot_file.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/snapshot/snapshot_file.h"
#include "io/checkpoint/checkpoint.h"
#include "io/error.h"

namespace sluice {

// The same for every copy of a model, wherever it lies and over however many folders it is spread:
// a checksum of config.json, tokenizer.json, the tensors of each shard as its header lists them,
// and 4 KiB from the middle of each shard, because a fine-tuned model has the headers of its base.
// Reads a few KiB per shard.
Result<uint64_t> model_identity(const Checkpoint& checkpoint);

// What decides the bits that a device computes (kernels/README.md, the arithmetic contract): "cpu"
// for all instruction sets, "cuda, compute 9.0" for GPUs of that capability. `device` is
// Settings::device, `name` is Backend::name().
std::string device_kind(std::string_view device, std::string_view name);

// `device` is a device_kind(). Reads what model_identity() reads and the executable: call it once
// per model.
Result<SnapshotIdentity> snapshot_identity(const Checkpoint& checkpoint, std::string device,
                                           IndexKeys index_keys);

}  // namespace sluice
