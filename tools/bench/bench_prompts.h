// Measures the prefill of prompts of several lengths, in one load of a model.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"
#include "tools/answer/json_writer.h"
#include "tools/answer/report.h"

namespace sluice {

struct PromptRow {
    int32_t tokens = 0;
    double first_s = 0;     // with what the caches held before
    double again_s = 0;     // the same prompt a second time, from an empty session
    uint64_t launches = 0;  // this and the rest: of the second time
    double uploaded = 0;    // bytes
    Limit limit;
};

// Prompts of 512, 4096 and 8192 random ids, those of them that fit into the context.
Result<std::vector<PromptRow>> bench_prompts(const EngineOptions& options);
std::string prompts_text(const std::vector<PromptRow>& rows);
void write_prompts(JsonWriter& json, const std::vector<PromptRow>& rows);

// `count` ids of ordinary text tokens, the same at every call.
std::vector<int32_t> random_prompt(const Engine& engine, int32_t count);

}  // namespace sluice
