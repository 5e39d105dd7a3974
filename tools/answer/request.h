// What is asked of a model, whichever flag, file or API it came from, and what generate() makes an
// answer of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "engine/text/sampler.h"
#include "io/error.h"
#include "tools/answer/answer_format.h"
#include "tools/answer/generate.h"
#include "tools/answer/model_run.h"

namespace sluice {

enum class ToolChoice { automatic, none, required };  // required: any tool, or `tool_name`

struct AnswerRequest {
    // One of three: a conversation; a text that is continued as it is, behind the begin token; ids.
    std::vector<Message> messages;
    std::optional<std::string> text;
    std::vector<int32_t> ids;

    PromptOptions prompt;  // mode and effort, of a conversation
    SamplerOptions sampler;
    std::vector<std::string> stop;
    bool ignore_eos = false;
    int32_t loop_guard = 0;
    Unclosed unclosed = Unclosed::is_answer;  // StreamOptions
    int64_t predict = -1;                     // most tokens to generate; -1: as the context allows
    bool predict_must_fit = true;             // false: a context too short for it ends the answer
    std::optional<int32_t> top_logprobs;      // GenerateOptions

    std::vector<std::string> tools;  // declared functions: a JSON object each, as text
    ToolChoice tool_choice = ToolChoice::automatic;
    std::string tool_name;  // with `required`; empty: any
    ResponseFormat format = ResponseFormat::text;
    std::string schema;  // of json_schema: JSON text
};

// A request with everything that a run's options leave at their defaults, and no prompt.
AnswerRequest default_request(const ModelRun& run, const Options& options);

// What generate() needs.
struct PreparedRequest {
    std::vector<int32_t> ids;
    GenerateOptions options;  // without `cancel`
};

// Turns a request into ids and options, and checks all that can be checked before the model runs:
// what is the request's fault is found here (usage; unsupported: what this model lacks). Any
// thread; costs the tokenising, and the compiling of a schema.
Result<PreparedRequest> prepare(const ModelRun& run, const AnswerRequest& request);

// The ids of its prompt alone, which may be more than the context holds. As prepare().
Result<std::vector<int32_t>> prompt_ids(const ModelRun& run, const AnswerRequest& request);

}  // namespace sluice
