// Source of replies.h: /v1/completions.
#include "tools/api/errors.h"
#include "tools/api/openai_writer.h"
#include "tools/api/replies.h"
#include "tools/api/token_texts.h"

namespace sluice {

namespace {

constexpr std::string_view object = "text_completion";

class CompletionWriter final : public OpenAiWriter {
 public:
    CompletionWriter(const ApiRequest& request, const ReplyFacts& facts)
        : OpenAiWriter(request, facts, "cmpl-", object) {}

    // The first piece is as good a beginning as any.
    std::string begin() override { return {}; }

    std::string piece(const AnswerStream::Piece& piece) override {
        if (piece.content.empty() && piece.reasoning.empty() && piece.logprobs.empty()) return {};
        JsonWriter json = open_chunk();
        write_text(json, piece.content, piece.reasoning, piece.logprobs);
        return close_chunk(json);
    }

    std::string whole(const Answer& answer) override {
        if (answer.error) {
            return openai_error(http_status(answer.error->code), answer.error->message);
        }
        JsonWriter json = open_reply(object);
        json.key("choices").begin_array().begin_object().member("index", 0);
        write_text(json, answer.text, answer.reasoning, answer.logprobs);
        json.member("finish_reason", finish_reason(answer)).end_object().end_array();
        write_usage(json, answer);
        write_timings(json, answer);
        write_warning(json, answer);
        return json.end_object().text();
    }

 private:
    void write_no_text(JsonWriter& json) const override {
        json.member("text", "").key("logprobs").null();
    }

    void write_text(JsonWriter& json, std::string_view text, std::string_view reasoning,
                    std::span<const TokenLogprobs> tokens) {
        json.member("text", text);
        if (!reasoning.empty()) json.member("reasoning_content", reasoning);
        json.key("logprobs");
        if (!request_.answer.top_logprobs || facts_.tokenizer == nullptr) {
            json.null();
        } else {
            write_token_columns(json, tokens, *facts_.tokenizer, offset_);
        }
    }

    uint64_t offset_ = 0;  // characters of the tokens so far
};

}  // namespace

std::unique_ptr<ReplyWriter> completion_writer(const ApiRequest& request, const ReplyFacts& facts) {
    return std::make_unique<CompletionWriter>(request, facts);
}

}  // namespace sluice
