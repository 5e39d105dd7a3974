// What `sluice plan` knows of a model before it runs: its config, its tensors and where its files
// lie; or a known shape, without any file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/load/load.h"
#include "engine/load/memory_plan.h"
#include "io/error.h"

namespace sluice {

// A block device that shards lie on; without a model, one that could take them.
struct PlannedDrive {
    std::string name;         // "nvme0n1p2", or empty
    std::string file_system;  // "ext4 on /data"
    uint64_t free = 0;
    uint64_t shards = 0, shard_bytes = 0;
};

struct PlanModel {
    std::string name;
    bool files = false;  // false: a shape
    Loaded loaded;       // config, weights' shapes and, with files, checkpoint and expert map
    std::vector<TensorSpec> specs;
    std::vector<TensorClass> classes;  // by home, then in the description's order
    std::vector<PlannedDrive> drives;
    std::vector<std::string> notes;
    uint64_t expert_bytes = 0;       // payload of one
    uint64_t expert_read_bytes = 0;  // what a read of one takes from the drive
    uint64_t slot_bytes = 0, device_slot_bytes = 0;
    std::vector<RowTable> tables;

    const ModelConfig& config() const { return loaded.runtime.config; }
    uint64_t bytes(Home home) const;
    uint64_t experts() const;        // in all
    uint64_t token_experts() const;  // that one token uses
};

// `shape`: a name of shape_names(), or empty for the files that `options` name. Reads config and
// headers only.
Result<std::unique_ptr<PlanModel>> model_to_plan(const EngineOptions& options,
                                                 const std::string& shape);

}  // namespace sluice
