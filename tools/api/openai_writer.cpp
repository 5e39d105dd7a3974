#include "tools/api/openai_writer.h"

#include "io/text.h"
#include "tools/api/errors.h"

namespace sluice {

JsonWriter OpenAiWriter::open_reply(std::string_view object) const {
    JsonWriter json;
    json.begin_object()
        .member("id", id_)
        .member("object", object)
        .member("created", facts_.created)
        .member("model", facts_.model)
        .member("system_fingerprint", fingerprint_);
    return json;
}

JsonWriter OpenAiWriter::open_chunk() const {
    JsonWriter json = open_reply(chunk_object_);
    json.key("choices").begin_array().begin_object().member("index", 0);
    return json;
}

std::string OpenAiWriter::close_chunk(JsonWriter& json, const Answer* complete) const {
    json.key("finish_reason");
    if (complete == nullptr) {
        json.null();
    } else {
        json.value(finish_reason(*complete));
    }
    json.end_object().end_array();
    if (request_.usage_in_stream) json.key("usage").null();
    if (complete != nullptr) {
        write_timings(json, *complete);
        write_warning(json, *complete);
    }
    return sse_data(json.end_object().text());
}

std::string OpenAiWriter::end(const Answer& answer) {
    if (answer.error) return failed(http_status(answer.error->code), *answer.error);
    JsonWriter last = open_chunk();
    write_no_text(last);
    std::string out = close_chunk(last, &answer);
    if (request_.usage_in_stream) {
        JsonWriter usage = open_reply(chunk_object_);
        usage.key("choices").begin_array().end_array();
        write_usage(usage, answer);
        out += sse_data(usage.end_object().text());
    }
    return out + sse_data("[DONE]");
}

// Clients raise an object with an error; what follows it is not read.
std::string OpenAiWriter::failed(int status, const Error& error) {
    return sse_data(openai_error(status, error.message)) + sse_data("[DONE]");
}

}  // namespace sluice
