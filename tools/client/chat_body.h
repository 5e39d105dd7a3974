// The request that asks a server what a model in this process would be asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"
#include "tools/options/options.h"

namespace sluice {

// "structured_outputs" of --format, as JSON text; empty without that flag. usage: a file that is no
// JSON schema, or none that is known here.
Result<std::string> format_field(const Options& options);

// The body of a request to /v1/chat/completions, which streams. What the options leave open is left
// to the server, but for the seed. `format`: of format_field().
std::string chat_body(const std::vector<Message>& messages, const Options& options,
                      const std::string& model, uint64_t seed, const std::string& format);

}  // namespace sluice
