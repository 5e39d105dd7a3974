// Measures what each step of overlap gains on one drive: read, then compute; reads beside compute;
// the one-token path; prefetch.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"
#include "tools/answer/json_writer.h"
#include "tools/bench/bench_model.h"

namespace sluice {

struct LadderRow {
    std::string name;
    double tok_s = 0;
    double bytes_token = 0;   // read
    double needed_token = 0;  // the part of those that would have been read without prefetch
    double limit_tok_s = 0;   // speed at which the drive would deliver the needed bytes
    uint64_t guesses_used = 0, guesses_wasted = 0;
};

// Loads the model four times; without a cache unless the options set one, so that the drive is the
// bottleneck.
Result<std::vector<LadderRow>> bench_ladder(const EngineOptions& options, const ModelBench& bench);
std::string ladder_text(const std::vector<LadderRow>& rows);
void write_ladder(JsonWriter& json, const std::vector<LadderRow>& rows);

}  // namespace sluice
