// Measures decode with the experts that are not in VRAM computed by the device alone, by the CPU
// alone, and split between both by measured rates.
#pragma once

#include <string>
#include <vector>

#include "tools/answer/json_writer.h"
#include "tools/bench/bench_model.h"

namespace sluice {

struct SplitRow {
    std::string name;
    ModelReport model;
};

// Error (usage) without a GPU. Decided from the device's name, before anything is loaded.
Result<void> check_split(const EngineOptions& options);

// Loads the model once per row. Requires that check_split() succeeded.
Result<std::vector<SplitRow>> bench_split(const EngineOptions& options, const ModelBench& bench);

std::string split_text(const std::vector<SplitRow>& rows);
void write_split(JsonWriter& json, const std::vector<SplitRow>& rows);

}  // namespace sluice
