#include "tools/client/chat_body.h"

#include "tools/answer/json_writer.h"
#include "tools/answer/messages.h"

namespace sluice {

namespace {

template <class T>
void write_if(JsonWriter& json, const char* name, const std::optional<T>& value) {
    if (value) json.member(name, *value);
}

void write_sampling(JsonWriter& json, const Options& options, uint64_t seed) {
    write_if(json, "temperature", options.temperature);
    write_if(json, "top_k", options.top_k);
    write_if(json, "top_p", options.top_p);
    write_if(json, "min_p", options.min_p);
    write_if(json, "repetition_penalty", options.repeat_penalty);
    json.member("seed", static_cast<int64_t>(seed));  // the same 64 bits
}

void write_limits(JsonWriter& json, const Options& options) {
    if (options.predict >= 0) json.member("max_tokens", options.predict);
    if (options.ignore_eos) json.member("ignore_eos", true);
    if (options.loop_guard > 0) json.member("loop_guard", options.loop_guard);
    if (options.stop.empty()) return;
    json.key("stop").begin_array();
    for (const std::string& one : options.stop) json.value(one);
    json.end_array();
}

void write_thinking(JsonWriter& json, const Options& options) {
    const bool automatic = options.reasoning == Reasoning::automatic;
    if (automatic && !options.effort) return;
    const char* type = options.thinking() ? "enabled" : "disabled";
    json.key("thinking").begin_object().member("type", type).end_object();
    write_if(json, "reasoning_effort", options.effort);
}

// As the API writes it.
void write_format(JsonWriter& json, const AnswerFormat& format) {
    if (format.kind == ResponseFormat::text) return;
    const bool any = format.kind == ResponseFormat::json_object;
    json.key("response_format").begin_object();
    json.member("type", any ? "json_object" : "json_schema");
    if (!any) json.key("json_schema").begin_object().key("schema").json(format.schema).end_object();
    json.end_object();
}

}  // namespace

std::string chat_body(const std::vector<Message>& messages, const Options& options,
                      const std::string& model, uint64_t seed, const AnswerFormat& format) {
    JsonWriter json;
    json.begin_object().member("model", model).key("messages");
    write_messages(json, messages);
    json.member("stream", true).key("stream_options").begin_object();
    json.member("include_usage", true).end_object();
    write_sampling(json, options, seed);
    write_limits(json, options);
    write_thinking(json, options);
    write_format(json, format);
    return json.end_object().text();
}

}  // namespace sluice
