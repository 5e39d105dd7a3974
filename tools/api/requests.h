// The requests of the four APIs. As Dialect::parse().
#pragma once

#include <string_view>

#include "tools/api/dialect.h"

namespace sluice {

Result<ApiRequest> parse_chat(std::string_view body, const AnswerRequest& defaults);
Result<ApiRequest> parse_completion(std::string_view body, const AnswerRequest& defaults);
Result<ApiRequest> parse_responses(std::string_view body, const AnswerRequest& defaults);
Result<ApiRequest> parse_anthropic(std::string_view body, const AnswerRequest& defaults);
// As parse_anthropic(), but max_tokens may be missing.
Result<ApiRequest> parse_anthropic_count(std::string_view body, const AnswerRequest& defaults);

}  // namespace sluice
