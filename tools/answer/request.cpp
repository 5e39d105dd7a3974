#include "tools/answer/request.h"

#include <algorithm>

#include "engine/text/python_json.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

namespace {

// The JSON text of the schema that the prompt shows; empty: none.
Result<std::string> shown_schema(const AnswerRequest& request) {
    switch (request.format) {
        case ResponseFormat::text:
            return std::string();
        case ResponseFormat::json_object:
            return std::string(R"({"type": "object"})");
        case ResponseFormat::json_schema:
            break;
    }
    auto schema = Json::parse(request.schema);
    if (!schema) return fail(Code::usage, cat("the JSON schema: ", schema.error().message));
    return python_json(*schema);
}

// With the declared tools and the form of the answer.
Result<PromptOptions> prompt_options(const ModelRun& run, const AnswerRequest& request) {
    PromptOptions out = request.prompt;
    for (const std::string& text : request.tools) {
        if (request.tool_choice == ToolChoice::none) break;
        auto tool = Json::parse(text);
        if (!tool)
            return fail(Code::usage,
                        cat("tool ", out.tools.size() + 1, ": ", tool.error().message));
        out.tools.push_back(std::move(*tool));
    }
    auto schema = shown_schema(request);
    if (!schema) return tl::unexpected(schema.error());
    out.response_format = std::move(*schema);
    if (!needs_wording(*run.chat, out)) return out;
    if (!run.wording) return tl::unexpected(run.wording.error());
    out.wording = &*run.wording;
    return out;
}

// The calls that an answer may be. Text or ids that are continued know no tools.
Result<CallRule> call_rule(const Tokenizer& tokenizer, const ToolSyntax& syntax,
                           const AnswerRequest& request, const PromptOptions& prompt) {
    const bool required = request.tool_choice == ToolChoice::required;
    if (required && prompt.tools.empty()) {
        return fail(Code::usage, "a tool call is required, but no tools are declared");
    }
    const auto is_named = [&](const Json& tool) {
        const auto name = tool["name"].string();
        return name && *name == request.tool_name;
    };
    if (!request.tool_name.empty() && std::ranges::none_of(prompt.tools, is_named)) {
        return fail(Code::usage, cat("the tool \"", printable(request.tool_name),
                                     "\" that has to be called is not declared"));
    }
    if (prompt.tools.empty()) return CallRule{};
    auto prefix = forced_call_prefix(tokenizer, syntax, request.tool_name);
    if (!prefix) return tl::unexpected(prefix.error());
    return CallRule{std::move(*prefix), required};
}

Result<std::vector<int32_t>> encode(const ModelRun& run, const AnswerRequest& request,
                                    const PromptOptions& options) {
    const Tokenizer& tokenizer = run.engine->tokenizer();
    if (!request.ids.empty()) return request.ids;
    if (!request.text) return encode_chat(tokenizer, *run.chat, request.messages, options);
    std::vector<int32_t> ids;
    if (const auto begin = tokenizer.id(run.chat->tokens->begin)) ids.push_back(*begin);
    const auto text = tokenizer.encode(*request.text);
    ids.insert(ids.end(), text.begin(), text.end());
    return ids;
}

}  // namespace

AnswerRequest default_request(const ModelRun& run, const Options& options) {
    AnswerRequest out;
    out.prompt = run.prompt;
    out.sampler = run.sampler;
    out.stop = options.stop;
    out.ignore_eos = options.ignore_eos;
    out.loop_guard = options.loop_guard;
    out.predict = options.predict;
    out.format = run.format.kind;
    out.schema = run.format.schema;
    return out;
}

Result<std::vector<int32_t>> prompt_ids(const ModelRun& run, const AnswerRequest& request) {
    auto options = prompt_options(run, request);
    if (!options) return tl::unexpected(std::move(options).error());
    return encode(run, request, *options);
}

Result<PreparedRequest> prepare(const ModelRun& run, const AnswerRequest& request) {
    if (auto fine = check(request.sampler); !fine) return tl::unexpected(fine.error());
    if (auto stops = StopMatcher::create(request.stop); !stops) {
        return tl::unexpected(stops.error());
    }
    auto prompt = prompt_options(run, request);
    if (!prompt) return tl::unexpected(prompt.error());
    auto grammar = answer_grammar({request.format, request.schema});
    if (!grammar) return tl::unexpected(grammar.error());
    auto call = call_rule(run.engine->tokenizer(), *run.chat->tools, request, *prompt);
    if (!call) return tl::unexpected(call.error());
    auto ids = encode(run, request, *prompt);
    if (!ids) return tl::unexpected(ids.error());
    const int64_t needed = request.predict_must_fit ? request.predict : -1;
    if (auto room = check_room(ids->size(), needed, run.facts.context); !room) {
        return tl::unexpected(room.error());
    }
    // What is continued is so in no mode: all of the answer is content.
    const bool chat = request.ids.empty() && !request.text;
    const bool turn = chat && !request.prompt.continue_last &&
                      !answers_without_header(request.messages.back().task);
    GenerateOptions options;
    options.stream = {run.chat->tokens, turn ? request.prompt.mode : PromptMode::chat, request.stop,
                      request.ignore_eos, request.loop_guard};
    options.stream.unclosed = request.unclosed;
    if (chat && !prompt->tools.empty()) options.stream.tools = run.chat->tools;
    options.sampler = request.sampler;
    options.predict = request.predict;
    options.context = run.facts.context;
    options.top_logprobs = request.top_logprobs;
    options.constraint =
        answer_constraint(run.engine->tokenizer(), run.facts.end_tokens, *grammar, *call);
    return PreparedRequest{std::move(*ids), std::move(options)};
}

}  // namespace sluice
