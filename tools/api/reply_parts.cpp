#include "tools/api/reply_parts.h"

#include <algorithm>
#include <cmath>

#include "io/checksum.h"
#include "io/text.h"
#include "io/this_build.h"

namespace sluice {

namespace {

void write_rate(JsonWriter& json, std::string_view phase, uint64_t tokens, double seconds) {
    const auto count = static_cast<double>(tokens);
    json.member(cat(phase, "_n"), tokens)
        .member(cat(phase, "_ms"), seconds * 1e3)
        .member(cat(phase, "_per_token_ms"), tokens > 0 ? seconds * 1e3 / count : 0.0)
        .member(cat(phase, "_per_second"), seconds > 0 ? count / seconds : 0.0);
}

}  // namespace

std::string sse_data(std::string_view json) {
    return cat("data: ", json, "\n\n");
}

std::string sse_event(std::string_view name, std::string_view json) {
    return cat("event: ", name, "\ndata: ", json, "\n\n");
}

std::string sse_comment(int64_t queue_place, double prompt_done) {
    if (queue_place > 0) return cat(": queued, place ", queue_place, "\n\n");
    if (!(prompt_done < 1)) return ": working\n\n";
    const double percent = std::floor(std::max(prompt_done, 0.0) * 100);
    return cat(": reading the prompt ", static_cast<int>(percent), " %\n\n");
}

std::string reply_id(std::string_view prefix, const ReplyFacts& facts) {
    return cat(prefix, checksum_text(facts.id));
}

std::string fingerprint() {
    return cat("sluice-", build_version(), "-", build_commit());
}

std::string call_id(const ToolCall& call, std::string_view prefix, const ReplyFacts& facts,
                    size_t index) {
    return call.id.empty() ? cat(reply_id(prefix, facts), "_", index) : call.id;
}

std::span<const ToolCall> calls_to_send(const ApiRequest& request,
                                        const std::vector<ToolCall>& calls, size_t sent) {
    if (request.parallel_calls) return calls;
    return std::span(calls).first(sent == 0 ? std::min<size_t>(calls.size(), 1) : 0);
}

std::string_view warning_of(const Answer& answer) {
    if (answer.malformed_call) return "a tool call could not be read: it is left in the text";
    if (answer.finish == Finish::loop) return "the answer repeated itself and was ended";
    if (answer.finish == Finish::interrupted) return "the answer was interrupted";
    return {};
}

void write_warning(JsonWriter& json, const Answer& answer) {
    if (const auto warning = warning_of(answer); !warning.empty()) json.member("warning", warning);
    if (answer.finish == Finish::loop) json.member("ended_by", "loop");
    if (answer.unclosed || answer.cut_reasoning) json.member("reasoning_unclosed", true);
}

std::string_view finish_reason(const Answer& answer) {
    switch (answer.finish) {
        case Finish::stop:
            return "stop";
        case Finish::tool_calls:
            return "tool_calls";
        case Finish::length:
        case Finish::interrupted:
        case Finish::loop:
        case Finish::error:
            return "length";
    }
    return "length";
}

void write_usage(JsonWriter& json, const Answer& answer) {
    json.key("usage")
        .begin_object()
        .member("prompt_tokens", answer.prompt_tokens)
        .member("completion_tokens", answer.completion_tokens)
        .member("total_tokens", answer.prompt_tokens + answer.completion_tokens)
        .key("prompt_tokens_details")
        .begin_object()
        .member("cached_tokens", answer.cached_tokens)
        .end_object()
        .key("completion_tokens_details")
        .begin_object()
        .member("reasoning_tokens", answer.reasoning_tokens)
        .end_object()
        .end_object();
}

void write_timings(JsonWriter& json, const Answer& answer) {
    json.key("timings").begin_object().member("cache_n", answer.cached_tokens);
    write_rate(json, "prompt", answer.prompt_tokens - answer.cached_tokens, answer.prompt_s);
    write_rate(json, "predicted", answer.decoded(), answer.decode_s);
    json.end_object();
}

}  // namespace sluice
