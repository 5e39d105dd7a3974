// Source of replies.h: /v1/chat/completions.
#include "io/text.h"
#include "tools/api/errors.h"
#include "tools/api/openai_writer.h"
#include "tools/api/replies.h"
#include "tools/api/token_texts.h"

namespace sluice {

namespace {

constexpr std::string_view call_prefix = "call_";

class ChatWriter final : public OpenAiWriter {
 public:
    ChatWriter(const ApiRequest& request, const ReplyFacts& facts)
        : OpenAiWriter(request, facts, "chatcmpl-", "chat.completion.chunk") {}

    std::string begin() override {
        JsonWriter json = open_chunk();
        json.key("delta").begin_object().member("role", "assistant").member("content", "");
        json.end_object().key("logprobs").null();
        return close_chunk(json);
    }

    std::string piece(const AnswerStream::Piece& piece) override {
        std::string out;
        if (!piece.reasoning.empty()) out += text_chunk("reasoning_content", piece.reasoning, {});
        if (!piece.content.empty() || !piece.logprobs.empty()) {
            out += text_chunk("content", piece.content, piece.logprobs);
        }
        for (const ToolCall& call : calls_to_send(request_, piece.calls, calls_sent_)) {
            out += call_chunk(call);
        }
        return out;
    }

    std::string whole(const Answer& answer) override {
        if (answer.error) {
            return openai_error(http_status(answer.error->code), answer.error->message);
        }
        JsonWriter json = open_reply("chat.completion");
        json.key("choices").begin_array().begin_object().member("index", 0);
        write_message(json, answer);
        write_logprobs(json, answer.logprobs);
        json.member("finish_reason", finish_reason(answer)).end_object().end_array();
        write_usage(json, answer);
        write_timings(json, answer);
        write_warning(json, answer);
        return json.end_object().text();
    }

 private:
    void write_no_text(JsonWriter& json) const override {
        json.key("delta").begin_object().end_object().key("logprobs").null();
    }

    void write_logprobs(JsonWriter& json, std::span<const TokenLogprobs> tokens) const {
        json.key("logprobs");
        if (!request_.answer.top_logprobs || facts_.tokenizer == nullptr) {
            json.null();
            return;
        }
        json.begin_object().key("content");
        write_token_list(json, tokens, *facts_.tokenizer);
        json.key("refusal").null().end_object();
    }

    std::string text_chunk(std::string_view member, std::string_view text,
                           std::span<const TokenLogprobs> tokens) const {
        JsonWriter json = open_chunk();
        json.key("delta").begin_object().member(member, text).end_object();
        if (tokens.empty()) {
            json.key("logprobs").null();
        } else {
            write_logprobs(json, tokens);
        }
        return close_chunk(json);
    }

    void write_call(JsonWriter& json, const ToolCall& call, size_t index) const {
        json.member("id", call_id(call, call_prefix, facts_, index))
            .member("type", "function")
            .key("function")
            .begin_object()
            .member("name", call.name)
            .member("arguments", call.arguments)
            .end_object();
    }

    std::string call_chunk(const ToolCall& call) {
        JsonWriter json = open_chunk();
        json.key("delta").begin_object().key("tool_calls").begin_array().begin_object();
        json.member("index", calls_sent_);
        write_call(json, call, calls_sent_++);
        json.end_object().end_array().end_object().key("logprobs").null();
        return close_chunk(json);
    }

    void write_message(JsonWriter& json, const Answer& answer) const {
        json.key("message").begin_object().member("role", "assistant").key("content");
        if (answer.text.empty() && !answer.calls.empty()) {
            json.null();
        } else {
            json.value(answer.text);
        }
        json.key("refusal").null();
        if (!answer.reasoning.empty()) json.member("reasoning_content", answer.reasoning);
        if (!answer.calls.empty()) {
            json.key("tool_calls").begin_array();
            size_t index = 0;
            for (const ToolCall& call : calls_to_send(request_, answer.calls, 0)) {
                json.begin_object();
                write_call(json, call, index++);
                json.end_object();
            }
            json.end_array();
        }
        json.end_object();
    }

    size_t calls_sent_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> chat_writer(const ApiRequest& request, const ReplyFacts& facts) {
    return std::make_unique<ChatWriter>(request, facts);
}

}  // namespace sluice
