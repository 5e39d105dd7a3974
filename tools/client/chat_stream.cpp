#include "tools/client/chat_stream.h"

#include <algorithm>
#include <cmath>

#include "engine/text/stop_matcher.h"
#include "io/text.h"
#include "tools/client/server_error.h"

namespace sluice {

namespace {

constexpr double day_ms = 86'400'000;

tl::unexpected<Error> malformed(std::string_view why) {
    return fail(Code::io, cat("its stream is not that of a chat: ", why));
}

// A number that is missing, or is none, is 0: it is only shown.
uint64_t count_of(const Json& value) {
    return static_cast<uint64_t>(std::max<int64_t>(value.integer().value_or(0), 0));
}
double seconds_of(const Json& milliseconds) {
    const double value = milliseconds.number().value_or(0);
    return std::isfinite(value) ? std::clamp(value, 0.0, 1000 * day_ms) / 1e3 : 0;
}

// The text of a member that may be missing or null.
Result<std::string> text_in(const Json& delta, const char* name) {
    const Json value = delta[name];
    if (value.is_null()) return std::string();
    auto text = value.string();
    if (!text) return malformed(text.error().message);
    return text;
}

}  // namespace

Result<AnswerStream::Piece> ChatStream::take(std::string_view data) {
    if (data == "[DONE]") {
        ended_ = true;
        return AnswerStream::Piece{};
    }
    const auto chunk = Json::parse(data);
    if (!chunk) return malformed(chunk.error().message);
    if (!chunk->is_object()) return malformed("an event is not a JSON object");
    if (const Json error = (*chunk)["error"]; !error.is_null())
        return tl::unexpected(failure_of(error));
    const Json choices = (*chunk)["choices"];
    if (!choices.is_array()) return malformed("an event has no choices");
    read_usage((*chunk)["usage"]);
    read_additions(*chunk);
    if (choices.size() == 0) return AnswerStream::Piece{};
    return read_choice(choices.at(0));
}

Result<AnswerStream::Piece> ChatStream::read_choice(const Json& choice) {
    const Json delta = choice["delta"];
    auto content = text_in(delta, "content");
    const bool other_name = delta["reasoning_content"].is_null();
    auto reasoning = text_in(delta, other_name ? "reasoning" : "reasoning_content");
    for (const auto* one : {&content, &reasoning}) {
        if (!*one) return tl::unexpected(one->error());
    }
    const size_t more = content->size() + reasoning->size();
    if (answer_.text.size() + answer_.reasoning.size() + more > text_max)
        return fail(Code::io, "its answer is too long");
    answer_.text += *content;
    answer_.reasoning += *reasoning;
    if (auto fine = read_finish(choice["finish_reason"]); !fine)
        return tl::unexpected(fine.error());
    return AnswerStream::Piece{.reasoning = std::move(*reasoning), .content = std::move(*content)};
}

Result<void> ChatStream::read_finish(const Json& reason) {
    if (reason.is_null()) return {};
    const auto name = reason.string();
    if (!name) return malformed(name.error().message);
    if (*name == "stop") {
        answer_.finish = Finish::stop;
    } else if (*name == "length") {
        if (answer_.finish != Finish::loop) answer_.finish = Finish::length;
    } else {
        return fail(Code::io,
                    cat("its answer ended in a way that is not known here: ", printable(*name)));
    }
    finished_ = true;
    return {};
}

// Of this program's own server, in the chunk that ends the answer.
void ChatStream::read_additions(const Json& chunk) {
    if (chunk["ended_by"].string().value_or("") == "loop") answer_.finish = Finish::loop;
    answer_.cut_reasoning = chunk["reasoning_unclosed"].boolean().value_or(answer_.cut_reasoning);
    const Json timings = chunk["timings"];
    if (!timings.is_object()) return;
    answer_.prompt_s = seconds_of(timings["prompt_ms"]);
    answer_.decode_s = seconds_of(timings["predicted_ms"]);
}

// A server that says nothing of it has not ended its reasoning if it was not even ended itself.
AnswerStream::Piece ChatStream::finish(const std::vector<std::string>& stops) {
    AnswerStream::Piece rest;
    const bool cut = answer_.cut_reasoning || !finished_;
    if (!cut || !answer_.text.empty() || answer_.reasoning.empty()) return rest;
    auto matcher = StopMatcher::create(stops);
    if (!matcher) return rest;
    rest.content = matcher->push(answer_.reasoning);
    rest.content += matcher->finish();
    answer_.unclosed = true;
    answer_.cut_reasoning = false;
    answer_.reasoning.clear();
    answer_.reasoning_tokens = 0;
    answer_.text = rest.content;
    return rest;
}

void ChatStream::read_usage(const Json& usage) {
    if (!usage.is_object()) return;
    answer_.prompt_tokens = count_of(usage["prompt_tokens"]);
    answer_.completion_tokens = count_of(usage["completion_tokens"]);
    const Json details = usage["prompt_tokens_details"];
    answer_.cached_tokens = std::min(count_of(details["cached_tokens"]), answer_.prompt_tokens);
    answer_.reasoning_tokens = count_of(usage["completion_tokens_details"]["reasoning_tokens"]);
}

}  // namespace sluice
