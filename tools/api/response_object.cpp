#include "tools/api/response_object.h"

#include "io/text.h"
#include "tools/api/token_texts.h"

namespace sluice {

namespace {

std::string_view status_text(ItemStatus status) {
    return status == ItemStatus::completed ? "completed" : "in_progress";
}

void write_format(JsonWriter& json, const AnswerRequest& answer) {
    json.key("text").begin_object().key("format").begin_object();
    switch (answer.format) {
        case ResponseFormat::text:
            json.member("type", "text");
            break;
        case ResponseFormat::json_object:
            json.member("type", "json_object");
            break;
        case ResponseFormat::json_schema:
            json.member("type", "json_schema").member("name", "schema").key("schema");
            json.json(answer.schema);
            break;
    }
    json.end_object().end_object();
}

void write_tools(JsonWriter& json, const AnswerRequest& answer) {
    json.key("tools").begin_array();
    for (const std::string& tool : answer.tools) {  // an object with at least a name
        json.json(cat("{\"type\":\"function\",", std::string_view(tool).substr(1)));
    }
    json.end_array().key("tool_choice");
    if (answer.tool_choice == ToolChoice::required && !answer.tool_name.empty()) {
        json.begin_object()
            .member("type", "function")
            .member("name", answer.tool_name)
            .end_object();
    } else if (answer.tool_choice == ToolChoice::automatic) {
        json.value("auto");
    } else {
        json.value(answer.tool_choice == ToolChoice::none ? "none" : "required");
    }
}

void write_request(JsonWriter& json, const ApiRequest& request) {
    const AnswerRequest& answer = request.answer;
    json.key("max_output_tokens");
    if (answer.predict < 0) {
        json.null();
    } else {
        json.value(answer.predict);
    }
    json.member("parallel_tool_calls", request.parallel_calls)
        .member("store", false)
        .member("temperature", answer.sampler.temperature)
        .member("top_p", answer.sampler.top_p)
        .member("truncation", "disabled")
        .key("previous_response_id")
        .null()
        .key("metadata")
        .begin_object()
        .end_object();
    write_format(json, answer);
    write_tools(json, answer);
}

void write_response_usage(JsonWriter& json, const Answer& answer) {
    json.begin_object()
        .member("input_tokens", answer.prompt_tokens)
        .key("input_tokens_details")
        .begin_object()
        .member("cached_tokens", answer.cached_tokens)
        .member("cache_write_tokens", 0)
        .end_object()
        .member("output_tokens", answer.completion_tokens)
        .key("output_tokens_details")
        .begin_object()
        .member("reasoning_tokens", answer.reasoning_tokens)
        .end_object()
        .member("total_tokens", answer.prompt_tokens + answer.completion_tokens)
        .end_object();
}

std::string_view response_status(const Answer* answer, const Error* error) {
    if (error != nullptr) return "failed";
    if (answer == nullptr) return "in_progress";
    return finish_reason(*answer) == "length" ? "incomplete" : "completed";
}

void write_status(JsonWriter& json, const Answer* answer, const Error* error) {
    const std::string_view status = response_status(answer, error);
    json.member("status", status).key("error");
    if (error == nullptr) {
        json.null();
    } else {
        json.begin_object()
            .member("code", "server_error")
            .member("message", error->message)
            .end_object();
    }
    json.key("incomplete_details");
    if (status == "incomplete") {
        json.begin_object().member("reason", "max_output_tokens").end_object();
    } else {
        json.null();
    }
}

}  // namespace

void write_item_logprobs(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                         const Tokenizer* tokenizer) {
    json.key("logprobs");
    if (tokenizer == nullptr) {
        json.begin_array().end_array();
    } else {
        write_token_list(json, tokens, *tokenizer);
    }
}

void write_part(JsonWriter& json, const OutputItem& item, ItemStatus status,
                const Tokenizer* tokenizer) {
    const bool done = status == ItemStatus::completed;
    const bool message = item.kind == OutputItem::Kind::message;
    json.begin_object()
        .member("type", message ? "output_text" : "reasoning_text")
        .member("text", done ? std::string_view(item.text) : std::string_view{});
    if (message) {
        json.key("annotations").begin_array().end_array();
        write_item_logprobs(json, done ? item.logprobs : std::vector<TokenLogprobs>{}, tokenizer);
    }
    json.end_object();
}

void write_item(JsonWriter& json, const OutputItem& item, ItemStatus status,
                const Tokenizer* tokenizer) {
    const bool done = status == ItemStatus::completed;
    json.begin_object().member("id", item.id);
    if (item.kind == OutputItem::Kind::call) {
        json.member("type", "function_call")
            .member("call_id", item.call.id)
            .member("name", item.call.name)
            .member("arguments", done ? std::string_view(item.call.arguments) : std::string_view{});
    } else {
        if (item.kind == OutputItem::Kind::message) {
            json.member("type", "message").member("role", "assistant");
        } else {
            json.member("type", "reasoning").key("summary").begin_array().end_array();
        }
        json.key("content").begin_array();
        if (done) write_part(json, item, status, tokenizer);
        json.end_array();
    }
    json.member("status", status_text(status)).end_object();
}

std::string response_object(const ApiRequest& request, const ReplyFacts& facts,
                            const std::vector<OutputItem>& output, const Answer* answer,
                            const Error* error) {
    const Tokenizer* tokenizer = request.answer.top_logprobs ? facts.tokenizer : nullptr;
    JsonWriter json;
    json.begin_object()
        .member("id", reply_id("resp_", facts))
        .member("object", "response")
        .member("created_at", facts.created)
        .member("model", facts.model);
    write_status(json, answer, error);
    json.key("output").begin_array();
    for (const OutputItem& item : output) write_item(json, item, ItemStatus::completed, tokenizer);
    json.end_array();
    write_request(json, request);
    json.key("usage");
    if (answer == nullptr) {
        json.null();
    } else {
        write_response_usage(json, *answer);
        write_timings(json, *answer);
        write_warning(json, *answer);
    }
    return json.end_object().text();
}

}  // namespace sluice
