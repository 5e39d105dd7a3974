// /v1/models, /v1/models/NAME, /tokenize, /detokenize and counts of a request's tokens: small
// questions about the model, answered beside the queue. Any thread; throughout, the JSON of a
// request is hostile.
#pragma once

#include <string>
#include <string_view>

#include "io/error.h"
#include "tools/api/dialect.h"
#include "tools/server/served_model.h"

namespace sluice {

// One list for the clients of both APIs: OpenAI's members ("object", "data", "id", "created",
// "owned_by") and Anthropic's ("type", "display_name", "created_at", "has_more", ...) side by side.
std::string models_json(const ServedModel& model);
// One element of the list.
std::string model_json(const ServedModel& model);

// {"content": TEXT, "add_special": false} -> {"tokens": [...]}. With add_special the begin token
// comes first. Content never becomes a control token. Errors: usage, corrupt (not JSON).
Result<std::string> tokenize(const ServedModel& model, std::string_view body);
// {"tokens": [...]} -> {"content": TEXT}. Bytes that are no character become U+FFFD.
Result<std::string> detokenize(const Tokenizer& tokenizer, std::string_view body);

// How many tokens the prompt of a request has, also if the context is too short for it. Errors: as
// of the request itself.
Result<std::string> count_tokens(const CountRoute& route, const ServedModel& model,
                                 std::string_view body);

}  // namespace sluice
