// Source of replies.h: /v1/responses.
#include "io/text.h"
#include "tools/api/errors.h"
#include "tools/api/replies.h"
#include "tools/api/response_object.h"

namespace sluice {

namespace {

using Kind = OutputItem::Kind;

class ResponsesWriter final : public ReplyWriter {
 public:
    ResponsesWriter(const ApiRequest& request, const ReplyFacts& facts)
        : request_(request),
          facts_(facts),
          tokenizer_(request.answer.top_logprobs ? facts.tokenizer : nullptr) {}

    std::string begin() override {
        const std::string response = response_object(request_, facts_, {}, nullptr, nullptr);
        const std::string created = response_event("response.created", response);
        return created + response_event("response.in_progress", response);
    }

    std::string piece(const AnswerStream::Piece& piece) override {
        std::string out;
        if (!piece.reasoning.empty()) {
            out += enter(Kind::reasoning);
            out += text_delta("response.reasoning_text.delta", piece.reasoning, nullptr);
        }
        if (!piece.content.empty() || !piece.logprobs.empty()) {
            out += enter(Kind::message);
            out += text_delta("response.output_text.delta", piece.content, &piece.logprobs);
        }
        for (const ToolCall& call : calls_to_send(request_, piece.calls, calls_sent_)) {
            out += send_call(call);
        }
        return out;
    }

    std::string end(const Answer& answer) override {
        if (answer.error) return failed(http_status(answer.error->code), *answer.error);
        std::string out = close_item();
        const bool complete = finish_reason(answer) != "length";
        return out + response_event(complete ? "response.completed" : "response.incomplete",
                                    response_object(request_, facts_, items_, &answer, nullptr));
    }

    std::string failed(int, const Error& error) override {
        return response_event("response.failed",
                              response_object(request_, facts_, items_, nullptr, &error));
    }

    std::string keep_alive(int64_t queue_place, double prompt_done) override {
        return sse_comment(queue_place, prompt_done);
    }

    std::string whole(const Answer& answer) override {
        if (answer.error) {
            return openai_error(http_status(answer.error->code), answer.error->message);
        }
        if (!answer.reasoning.empty()) add_item(Kind::reasoning).text = answer.reasoning;
        if (!answer.text.empty()) {
            OutputItem& message = add_item(Kind::message);
            message.text = answer.text;
            message.logprobs = answer.logprobs;
        }
        for (const ToolCall& call : calls_to_send(request_, answer.calls, 0)) add_call(call);
        return response_object(request_, facts_, items_, &answer, nullptr);
    }

 private:
    OutputItem& add_item(Kind kind) {
        const std::string_view prefix = kind == Kind::reasoning ? "rs_"
                                        : kind == Kind::message ? "msg_"
                                                                : "fc_";
        items_.push_back({kind, cat(reply_id(prefix, facts_), "_", items_.size())});
        return items_.back();
    }

    void add_call(const ToolCall& call) {
        OutputItem& item = add_item(Kind::call);
        item.call = call;
        item.call.id = call_id(call, "call_", facts_, calls_sent_++);
    }

    // An event with the members that all have.
    JsonWriter open_event(std::string_view type) {
        JsonWriter json;
        json.begin_object().member("type", type).member("sequence_number", sequence_++);
        return json;
    }

    // About the last item.
    JsonWriter item_event(std::string_view type) {
        JsonWriter json = open_event(type);
        json.member("output_index", items_.size() - 1).member("item_id", items_.back().id);
        if (items_.back().kind != Kind::call) json.member("content_index", 0);
        return json;
    }

    std::string response_event(std::string_view type, std::string_view response) {
        JsonWriter json = open_event(type);
        json.key("response").json(response).end_object();
        return sse_event(type, json.text());
    }

    std::string whole_item_event(std::string_view type, ItemStatus status) {
        JsonWriter json = open_event(type);
        json.member("output_index", items_.size() - 1).key("item");
        write_item(json, items_.back(), status, tokenizer_);
        return sse_event(type, json.end_object().text());
    }

    std::string part_event(std::string_view type, ItemStatus status) {
        JsonWriter json = item_event(type);
        json.key("part");
        write_part(json, items_.back(), status, tokenizer_);
        return sse_event(type, json.end_object().text());
    }

    // Makes an item of this kind the open one.
    std::string enter(Kind kind) {
        if (open_ && items_.back().kind == kind) return {};
        std::string out = close_item();
        add_item(kind);
        open_ = true;
        out += whole_item_event("response.output_item.added", ItemStatus::in_progress);
        return out + part_event("response.content_part.added", ItemStatus::in_progress);
    }

    std::string text_delta(std::string_view type, const std::string& text,
                           const std::vector<TokenLogprobs>* logprobs) {
        OutputItem& item = items_.back();
        item.text += text;
        JsonWriter json = item_event(type);
        json.member("delta", text);
        if (logprobs != nullptr) {
            item.logprobs.insert(item.logprobs.end(), logprobs->begin(), logprobs->end());
            write_item_logprobs(json, *logprobs, tokenizer_);
        }
        return sse_event(type, json.end_object().text());
    }

    std::string close_item() {
        if (!open_) return {};
        open_ = false;
        const OutputItem& item = items_.back();
        const bool message = item.kind == Kind::message;
        const std::string_view type =
            message ? "response.output_text.done" : "response.reasoning_text.done";
        JsonWriter json = item_event(type);
        json.member("text", item.text);
        if (message) write_item_logprobs(json, item.logprobs, tokenizer_);
        std::string out = sse_event(type, json.end_object().text());
        out += part_event("response.content_part.done", ItemStatus::completed);
        return out + whole_item_event("response.output_item.done", ItemStatus::completed);
    }

    std::string send_call(const ToolCall& call) {
        std::string out = close_item();
        add_call(call);
        out += whole_item_event("response.output_item.added", ItemStatus::in_progress);
        for (const auto& [type, member] :
             {std::pair("response.function_call_arguments.delta", "delta"),
              std::pair("response.function_call_arguments.done", "arguments")}) {
            JsonWriter json = item_event(type);
            json.member(member, call.arguments);
            out += sse_event(type, json.end_object().text());
        }
        return out + whole_item_event("response.output_item.done", ItemStatus::completed);
    }

    const ApiRequest request_;
    const ReplyFacts facts_;
    const Tokenizer* const tokenizer_;  // nullptr: no log-probabilities
    std::vector<OutputItem> items_;
    bool open_ = false;  // the last item still grows
    size_t calls_sent_ = 0;
    uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<ReplyWriter> responses_writer(const ApiRequest& request, const ReplyFacts& facts) {
    return std::make_unique<ResponsesWriter>(request, facts);
}

}  // namespace sluice
