// Decode with the experts that are not in VRAM computed by the device alone, by the CPU alone, and
// by both, as measured rates say.
#pragma once

#include <string>
#include <vector>

#include "tools/bench_model.h"
#include "tools/json_writer.h"

namespace sluice {

struct SplitRow {
    std::string name;
    ModelReport model;
};

// Loads the model once a row. usage on a device without memory of its own.
Result<std::vector<SplitRow>> bench_split(const EngineOptions& options, const ModelBench& bench);

std::string split_text(const std::vector<SplitRow>& rows);
void write_split(JsonWriter& json, const std::vector<SplitRow>& rows);

}  // namespace sluice
