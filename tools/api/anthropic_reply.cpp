// Source of replies.h: Anthropic's /v1/messages.
#include "io/text.h"
#include "tools/api/errors.h"
#include "tools/api/replies.h"
#include "tools/api/reply_parts.h"

namespace sluice {

namespace {

// Clients return a thought only with a signature. Nothing is signed, and none is checked.
constexpr std::string_view signature = "unsigned";

std::string_view stop_reason(const Answer& answer) {
    if (!answer.stop.empty() && answer.finish == Finish::stop) return "stop_sequence";
    const std::string_view reason = finish_reason(answer);
    if (reason == "stop") return "end_turn";
    return reason == "length" ? "max_tokens" : "tool_use";
}

void write_stop(JsonWriter& json, const Answer& answer) {
    json.member("stop_reason", stop_reason(answer)).key("stop_sequence");
    if (answer.stop.empty()) {
        json.null();
    } else {
        json.value(answer.stop);
    }
}

// input_tokens: without those that a cache had.
void write_usage(JsonWriter& json, uint64_t input, uint64_t cached, uint64_t output,
                 uint64_t thinking) {
    json.key("usage")
        .begin_object()
        .member("input_tokens", input)
        .member("cache_creation_input_tokens", 0)
        .member("cache_read_input_tokens", cached)
        .member("output_tokens", output)
        .key("output_tokens_details")
        .begin_object()
        .member("thinking_tokens", thinking)
        .end_object()
        .end_object();
}

void write_answer_usage(JsonWriter& json, const Answer& answer) {
    write_usage(json, answer.prompt_tokens - answer.cached_tokens, answer.cached_tokens,
                answer.completion_tokens, answer.reasoning_tokens);
}

void write_thinking(JsonWriter& json, std::string_view text, std::string_view signed_by) {
    json.begin_object()
        .member("type", "thinking")
        .member("thinking", text)
        .member("signature", signed_by)
        .end_object();
}

void write_text(JsonWriter& json, std::string_view text) {
    json.begin_object().member("type", "text").member("text", text).end_object();
}

class AnthropicWriter final : public ReplyWriter {
 public:
    AnthropicWriter(const ApiRequest& request, const ReplyFacts& facts)
        : request_(request), facts_(facts) {}

    std::string begin() override {
        JsonWriter json;
        json.begin_object().member("type", "message_start").key("message");
        open_message(json);
        json.key("content").begin_array().end_array();
        json.key("stop_reason").null().key("stop_sequence").null();
        write_usage(json, facts_.prompt_tokens, 0, 0, 0);
        return sse_event("message_start", json.end_object().end_object().text());
    }

    std::string piece(const AnswerStream::Piece& piece) override {
        std::string out;
        if (!piece.reasoning.empty()) {
            out += enter(Block::thinking);
            out += delta("thinking_delta", "thinking", piece.reasoning);
        }
        if (!piece.content.empty()) {
            out += enter(Block::text);
            out += delta("text_delta", "text", piece.content);
        }
        for (const ToolCall& call : calls_to_send(request_, piece.calls, calls_sent_)) {
            out += send_call(call);
        }
        return out;
    }

    std::string end(const Answer& answer) override {
        if (answer.error) return failed(http_status(answer.error->code), *answer.error);
        std::string out = enter(Block::none);
        JsonWriter json;
        json.begin_object().member("type", "message_delta").key("delta").begin_object();
        write_stop(json, answer);
        json.end_object();
        write_answer_usage(json, answer);
        write_warning(json, answer);
        out += sse_event("message_delta", json.end_object().text());
        return out + sse_event("message_stop", R"({"type":"message_stop"})");
    }

    std::string failed(int status, const Error& error) override {
        return sse_event("error", anthropic_error(status, error.message));
    }

    std::string keep_alive(int64_t, double) override {
        return sse_event("ping", R"({"type":"ping"})");
    }

    std::string whole(const Answer& answer) override {
        if (answer.error) {
            return anthropic_error(http_status(answer.error->code), answer.error->message);
        }
        JsonWriter json;
        open_message(json);
        json.key("content").begin_array();
        if (!answer.reasoning.empty()) write_thinking(json, answer.reasoning, signature);
        if (!answer.text.empty()) write_text(json, answer.text);
        size_t index = 0;
        for (const ToolCall& call : calls_to_send(request_, answer.calls, 0)) {
            write_call(json, call, index++, call.arguments);
        }
        json.end_array();
        write_stop(json, answer);
        write_answer_usage(json, answer);
        write_warning(json, answer);
        return json.end_object().text();
    }

 private:
    enum class Block { none, thinking, text };

    void open_message(JsonWriter& json) const {
        json.begin_object()
            .member("id", reply_id("msg_", facts_))
            .member("type", "message")
            .member("role", "assistant")
            .member("model", facts_.model);
    }

    void write_call(JsonWriter& json, const ToolCall& call, size_t index,
                    std::string_view input) const {
        json.begin_object()
            .member("type", "tool_use")
            .member("id", call_id(call, "toolu_", facts_, index))
            .member("name", call.name)
            .key("input")
            .json(input)
            .end_object();
    }

    std::string delta(std::string_view type, std::string_view member, std::string_view text) const {
        JsonWriter json;
        json.begin_object().member("type", "content_block_delta").member("index", index_);
        json.key("delta").begin_object().member("type", type).member(member, text).end_object();
        return sse_event("content_block_delta", json.end_object().text());
    }

    template <class Write>
    std::string start(const Write& write) const {
        JsonWriter json;
        json.begin_object().member("type", "content_block_start").member("index", index_);
        json.key("content_block");
        write(json);
        return sse_event("content_block_start", json.end_object().text());
    }

    std::string stop() {
        JsonWriter json;
        json.begin_object().member("type", "content_block_stop").member("index", index_++);
        return sse_event("content_block_stop", json.end_object().text());
    }

    // Ends the open block and opens one of this kind, unless it is open.
    std::string enter(Block block) {
        if (block == open_) return {};
        std::string out;
        if (open_ == Block::thinking) out += delta("signature_delta", "signature", signature);
        if (open_ != Block::none) out += stop();
        open_ = block;
        if (block == Block::thinking) {
            out += start([](JsonWriter& json) { write_thinking(json, "", ""); });
        } else if (block == Block::text) {
            out += start([](JsonWriter& json) { write_text(json, ""); });
        }
        return out;
    }

    std::string send_call(const ToolCall& call) {
        std::string out = enter(Block::none);
        const size_t index = calls_sent_++;
        out += start([&](JsonWriter& json) { write_call(json, call, index, "{}"); });
        out += delta("input_json_delta", "partial_json", call.arguments);
        return out + stop();
    }

    const ApiRequest request_;
    const ReplyFacts facts_;
    Block open_ = Block::none;
    size_t index_ = 0;  // of the open block, or of the next
    size_t calls_sent_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> anthropic_writer(const ApiRequest& request, const ReplyFacts& facts) {
    return std::make_unique<AnthropicWriter>(request, facts);
}

}  // namespace sluice
