// Decode with the experts that are not in VRAM computed by the device alone, by the CPU alone, and
// by both, as measured rates say.
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

// usage where there is no card: decided by the name of the device, before anything is loaded.
Result<void> check_split(const EngineOptions& options);

// Loads the model once a row. check_split() holds.
Result<std::vector<SplitRow>> bench_split(const EngineOptions& options, const ModelBench& bench);

std::string split_text(const std::vector<SplitRow>& rows);
void write_split(JsonWriter& json, const std::vector<SplitRow>& rows);

}  // namespace sluice
