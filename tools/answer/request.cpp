#include "tools/answer/request.h"

namespace sluice {

namespace {

Result<std::vector<int32_t>> prompt_ids(const Engine& engine, const AnswerRequest& request) {
    const Tokenizer& tokenizer = engine.tokenizer();
    if (!request.ids.empty()) return request.ids;
    if (!request.text) return encode_chat(tokenizer, request.messages, request.prompt);
    std::vector<int32_t> ids;
    if (const auto begin = tokenizer.id(begin_token)) ids.push_back(*begin);
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
    return out;
}

Result<PreparedRequest> prepare(const ModelRun& run, const AnswerRequest& request) {
    if (auto fine = check(request.sampler); !fine) return tl::unexpected(fine.error());
    if (auto stops = StopMatcher::create(request.stop); !stops) {
        return tl::unexpected(stops.error());
    }
    auto grammar = answer_grammar(request.format, request.schema);
    if (!grammar) return tl::unexpected(grammar.error());
    auto ids = prompt_ids(*run.engine, request);
    if (!ids) return tl::unexpected(ids.error());
    if (auto room = check_room(ids->size(), request.predict, run.facts.context); !room) {
        return tl::unexpected(room.error());
    }
    // A text or ids are continued in no mode: all of the answer is content.
    const bool chat = request.ids.empty() && !request.text;
    GenerateOptions options;
    options.stream = {chat ? request.prompt.mode : PromptMode::chat, request.stop,
                      request.ignore_eos, request.loop_guard};
    options.sampler = request.sampler;
    options.predict = request.predict;
    options.context = run.facts.context;
    options.top_logprobs = request.top_logprobs;
    options.constraint =
        answer_constraint(run.engine->tokenizer(), run.facts.end_tokens, std::move(*grammar));
    return PreparedRequest{std::move(*ids), std::move(options)};
}

}  // namespace sluice
