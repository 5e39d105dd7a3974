// What `sluice plan` knows about a model without running it: config, tensors and the drives its
// files are on; or a known shape, without any files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/load/load.h"
#include "engine/load/memory_plan.h"
#include "io/error.h"

namespace sluice {

// A drive that holds shards; without files, a mounted drive that could hold them.
struct PlannedDrive {
    std::string name;         // "nvme0n1p2", or empty
    std::string file_system;  // "ext4 on /data"
    uint64_t free = 0;
    uint64_t shards = 0, shard_bytes = 0;
};

struct PlanModel {
    std::string name;
    bool files = false;  // false: a known shape
    Loaded loaded;       // config, tensor shapes and, with files, checkpoint and expert map
    std::vector<TensorSpec> specs;
    std::vector<TensorClass> classes;  // by home, then in the description's order
    std::vector<PlannedDrive> drives;
    std::vector<std::string> notes;
    uint64_t expert_bytes = 0;       // of one, without padding
    uint64_t expert_read_bytes = 0;  // what reading one takes from the drive
    uint64_t slot_bytes = 0, device_slot_bytes = 0;
    std::vector<RowTable> tables;

    const ModelConfig& config() const { return loaded.runtime.config; }
    uint64_t bytes(Home home) const;
    uint64_t experts() const;        // total
    uint64_t token_experts() const;  // that one token uses
};

// `shape`: one of shape_names(), or empty for the files that `options` name. Reads only config and
// headers.
Result<std::unique_ptr<PlanModel>> model_to_plan(const EngineOptions& options,
                                                 const std::string& shape);

}  // namespace sluice
