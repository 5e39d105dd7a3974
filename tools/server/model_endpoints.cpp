#include "tools/server/model_endpoints.h"

#include <ctime>

#include "engine/text/prompt.h"
#include "io/json.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"

namespace sluice {

namespace {

// "2025-01-31T12:00:00Z".
std::string date_text(int64_t seconds) {
    const auto time = static_cast<std::time_t>(seconds);
    std::tm parts = {};
    ::gmtime_r(&time, &parts);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void write_model(JsonWriter& json, const ServedModel& model) {
    json.begin_object()
        .member("id", model.name)
        .member("object", "model")
        .member("type", "model")
        .member("display_name", model.name)
        .member("created", model.created)
        .member("created_at", date_text(model.created))
        .member("owned_by", "sluice")
        .member("context_length", model.run->facts.context)
        .end_object();
}

Result<Json> parse_object(std::string_view body) {
    auto json = Json::parse(body);
    if (!json) return fail(Code::usage, json.error().message);
    if (!json->is_object()) return fail(Code::usage, "the body is not a JSON object");
    return json;
}

tl::unexpected<Error> as_usage(Error error) {
    error.code = Code::usage;
    return tl::unexpected(std::move(error));
}

}  // namespace

std::string model_json(const ServedModel& model) {
    JsonWriter json;
    write_model(json, model);
    return json.text();
}

std::string models_json(const ServedModel& model) {
    JsonWriter json;
    json.begin_object().member("object", "list").key("data").begin_array();
    write_model(json, model);
    json.end_array()
        .member("first_id", model.name)
        .member("last_id", model.name)
        .member("has_more", false)
        .end_object();
    return json.text();
}

Result<std::string> count_tokens(const CountRoute& route, const ServedModel& model,
                                 std::string_view body) {
    const auto request = route.parse(body, model.defaults);
    if (!request) return tl::unexpected(request.error());
    const auto ids = prompt_ids(*model.run, request->answer);
    if (!ids) return tl::unexpected(ids.error());
    return count_reply(route, ids->size());
}

Result<std::string> tokenize(const ServedModel& model, std::string_view body) {
    const Tokenizer& tokenizer = model.run->engine->tokenizer();
    auto request = parse_object(body);
    if (!request) return tl::unexpected(request.error());
    auto content = (*request)["content"].string();
    if (!content) return as_usage(content.error());
    const Json special = (*request)["add_special"];
    auto begins = special.is_null() ? Result<bool>(false) : special.boolean();
    if (!begins) return as_usage(begins.error());
    JsonWriter json;
    json.begin_object().key("tokens").begin_array();
    const auto begin = tokenizer.id(model.run->chat->tokens->begin);
    if (*begins && begin) json.value(*begin);
    for (const int32_t id : tokenizer.encode(*content)) json.value(id);
    return json.end_array().end_object().text();
}

Result<std::string> detokenize(const Tokenizer& tokenizer, std::string_view body) {
    auto request = parse_object(body);
    if (!request) return tl::unexpected(request.error());
    auto numbers = (*request)["tokens"].integers();
    if (!numbers) return as_usage(numbers.error());
    std::vector<int32_t> ids;
    for (const int64_t number : *numbers) {
        if (number < 0 || number >= tokenizer.size()) {
            return fail(Code::usage, cat("tokens: ", number, " is not the id of a token"));
        }
        ids.push_back(static_cast<int32_t>(number));
    }
    JsonWriter json;
    json.begin_object().member("content", tokenizer.decode(ids)).end_object();
    return json.text();
}

}  // namespace sluice
