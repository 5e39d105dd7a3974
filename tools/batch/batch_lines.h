// The lines of a batch: a request each in the input, a result each in the output, as in OpenAI's
// batch files.
//
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}
//   {"custom_id": "a", "response": {"status_code": 200, "body": {...}}, "error": null}
//   {"custom_id": "a", "response": null, "error": {"code": "usage", "message": "..."}}
//
// `method` may be missing, and `url`, which is then /v1/chat/completions. The body is what the
// server takes at that path (tools/API.md); `stream` has no effect. A line without an id that can
// be read is answered by its number: {"custom_id": null, "line": 7, ...}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "tools/answer/request.h"
#include "tools/api/dialect.h"

namespace sluice {

inline constexpr size_t batch_line_max = 16 << 20;  // bytes

struct BatchLine {
    uint64_t number = 0;  // in the input, from 1
    std::string id;       // custom_id; empty if it could not be read
    const Dialect* dialect = nullptr;
    ApiRequest request;
    PreparedRequest prepared;
    std::optional<Error> error;  // what is wrong with the line; then it is not run
};

// Reads one line (without its end). What is wrong with it is in `error`, not a failure.
BatchLine read_batch_line(std::string_view text, uint64_t number, const ModelRun& run,
                          const AnswerRequest& defaults);

// The order in which lines are run: prompts that begin alike stand together, the lines that came
// first as early as that allows. Lines with an error come first. Indices into `lines`.
std::vector<size_t> batch_order(const std::vector<BatchLine>& lines);

// How many ids the prompts have in common at their beginnings.
size_t common_prefix(const BatchLine& a, const BatchLine& b);

// One output line, line feed included.
std::string answered_line(const BatchLine& line, const std::string& body);
std::string failed_line(const BatchLine& line, const Error& error);

}  // namespace sluice
