// The request that asks a server what a model in this process would be asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "tools/answer/answer_format.h"
#include "tools/options/options.h"

namespace sluice {

// The body of a request to /v1/chat/completions, which streams. What the options leave open is left
// to the server, but for the seed.
std::string chat_body(const std::vector<Message>& messages, const Options& options,
                      const std::string& model, uint64_t seed, const AnswerFormat& format);

}  // namespace sluice
