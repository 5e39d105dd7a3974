// Measures prefill and decode speed of a loaded model, and the memory it took.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"
#include "tools/answer/report.h"

namespace sluice {

struct ModelReport {
    std::string device, io_name;
    uint32_t cache_slots = 0;
    uint64_t ram_budget = 0, peak_rss = 0;  // bytes; the peak of the process so far
    double load_s = 0;
    LoadFacts load;
    int32_t prompt_tokens = 0, decode_tokens = 0;
    double prompt_tok_s = 0, decode_tok_s = 0;  // medians of the runs
    double bytes_token = 0;                     // bytes read per decoded token, over all runs
    double hit_rate = 0;
    CpuExpertStats cpu;  // of the median run
    Limit limit;         // of the median run
};

struct ModelBench {
    int32_t prompt_tokens = 256;
    int32_t decode_tokens = 64;
    int runs = 3;  // each starts with an empty session; the expert cache keeps its content
};

// Loads the model, feeds a fixed prompt of random ids, then decodes greedily.
Result<ModelReport> bench_model(const EngineOptions& options, const ModelBench& bench);

}  // namespace sluice
