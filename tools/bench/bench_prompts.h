// How fast prompts of several lengths are swept, in one load of a model.
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
    double first_s = 0;  // with what the caches held then
    double again_s = 0;  // the same text once more, from an empty session
    uint64_t launches = 0;
    double uploaded = 0;  // bytes, the second time
    Limit limit;          // of the second time
};

// 512, 4096 and 8192 tokens of random ids, as many of them as the context holds.
Result<std::vector<PromptRow>> bench_prompts(const EngineOptions& options);
std::string prompts_text(const std::vector<PromptRow>& rows);
void write_prompts(JsonWriter& json, const std::vector<PromptRow>& rows);

// Ids that are text of the engine's tokenizer, the same ones at every call.
std::vector<int32_t> random_prompt(const Engine& engine, int32_t count);

}  // namespace sluice
