#include "tools/batch/batch_lines.h"

#include <algorithm>
#include <numeric>

#include "engine/text/python_json.h"
#include "io/json.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/options/user_text.h"

namespace sluice {

namespace {

constexpr std::string_view usual_url = "/v1/chat/completions";

Result<const Dialect*> find_dialect(std::string_view url) {
    std::string known;
    for (const ApiRoute& route : api_routes()) {
        if (route.path == url) return route.dialect;
        known += cat(known.empty() ? "" : ", ", route.path);
    }
    return fail(Code::usage, cat("url: \"", printable(url), "\" is not one of ", known));
}

Result<std::string> text_or(const Json& line, const char* name, std::string_view otherwise) {
    const Json value = line[name];
    if (value.is_null()) return std::string(otherwise);
    return value.string();
}

Result<void> read_fields(const Json& json, BatchLine& line, const ModelRun& run,
                         const AnswerRequest& defaults) {
    auto id = json["custom_id"].string();
    if (!id) return tl::unexpected(id.error());
    if (id->empty()) return fail(Code::usage, "custom_id: is empty");
    line.id = std::move(*id);
    const auto method = text_or(json, "method", "POST");
    if (!method) return tl::unexpected(method.error());
    if (*method != "POST") {
        return fail(Code::usage, cat("method: \"", printable(*method), "\" is not POST"));
    }
    const auto url = text_or(json, "url", usual_url);
    if (!url) return tl::unexpected(url.error());
    const auto dialect = find_dialect(*url);
    if (!dialect) return tl::unexpected(dialect.error());
    line.dialect = *dialect;
    if (!json["body"].is_object()) return fail(Code::usage, "body: an object is missing");
    auto request = line.dialect->parse(python_json(json["body"]), defaults);
    if (!request) return tl::unexpected(request.error());
    line.request = std::move(*request);
    auto prepared = prepare(run, line.request.answer);
    if (!prepared) return tl::unexpected(prepared.error());
    line.prepared = std::move(*prepared);
    return {};
}

const char* code_name(Code code) {
    switch (code) {
        case Code::usage:
            return "invalid_request";
        case Code::unsupported:
            return "unsupported";
        case Code::interrupted:
            return "interrupted";
        default:
            return "server_error";
    }
}

JsonWriter begin_line(const BatchLine& line) {
    JsonWriter json;
    json.begin_object().key("custom_id");
    if (line.id.empty()) {
        json.null().member("line", line.number);
    } else {
        json.value(line.id);
    }
    return json;
}

}  // namespace

BatchLine read_batch_line(std::string_view text, uint64_t number, const ModelRun& run,
                          const AnswerRequest& defaults) {
    BatchLine line;
    line.number = number;
    const auto read = [&]() -> Result<void> {
        if (text.size() > batch_line_max) {
            return fail(Code::usage, cat("the line has ", text.size(), " bytes, at most ",
                                         batch_line_max, " are read"));
        }
        if (auto valid = check_utf8("the line", text); !valid) return valid;
        const auto json = Json::parse(text);
        if (!json) return fail(Code::usage, json.error().message);
        if (!json->is_object()) return fail(Code::usage, "the line is no JSON object");
        return read_fields(*json, line, run, defaults);
    };
    if (auto done = read(); !done) {
        line.error = done.error();
        // A value of a wrong type is the request's fault, too.
        if (line.error->code == Code::corrupt) line.error->code = Code::usage;
    }
    return line;
}

size_t common_prefix(const BatchLine& a, const BatchLine& b) {
    const auto& one = a.prepared.ids;
    const auto& other = b.prepared.ids;
    const auto differ = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
    return static_cast<size_t>(differ.first - one.begin());
}

std::vector<size_t> batch_order(const std::vector<BatchLine>& lines) {
    std::vector<size_t> order(lines.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const bool wrong_a = lines[a].error.has_value(), wrong_b = lines[b].error.has_value();
        if (wrong_a || wrong_b) return wrong_a && !wrong_b;
        return lines[a].prepared.ids < lines[b].prepared.ids;
    });
    return order;
}

std::string answered_line(const BatchLine& line, const std::string& body) {
    JsonWriter json = begin_line(line);
    json.key("response").begin_object().member("status_code", 200);
    json.key("body").json(body).end_object();
    json.key("error").null().end_object();
    return json.text() + "\n";
}

std::string failed_line(const BatchLine& line, const Error& error) {
    JsonWriter json = begin_line(line);
    json.key("response").null();
    json.key("error").begin_object();
    json.member("code", code_name(error.code)).member("message", error.message);
    json.end_object().end_object();
    return json.text() + "\n";
}

}  // namespace sluice
