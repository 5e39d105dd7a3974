// model.safetensors.index.json: which tensor is in which file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/error.h"

namespace sluice {

struct WeightIndex {
    struct Entry {
        std::string tensor;
        uint32_t file;  // index into files
    };
    std::vector<std::string> files;  // sorted, without folder
    std::vector<Entry> entries;      // in document order, no tensor twice
    std::optional<uint64_t> total_size;
};

// Refuses what is not an object with a non-empty "weight_map" of names to plain file names (no
// folder, no ".."), and a tensor named twice. Messages name the file.
Result<WeightIndex> read_weight_index(const std::filesystem::path& path);

}  // namespace sluice
