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

// Refuses anything but an object whose non-empty "weight_map" maps tensor names to plain file names
// (no folder, no ".."), and a tensor named twice. Errors name the file.
Result<WeightIndex> read_weight_index(const std::filesystem::path& path);

}  // namespace sluice
