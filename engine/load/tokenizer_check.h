// Checks that a tokenizer and a config belong together.
#pragma once

#include "engine/model/config.h"
#include "engine/text/chat_format.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// corrupt: the tokenizer has ids beyond the config's vocabulary. unsupported, naming the field: the
// config gives another id to the begin or end token than the tokenizer does.
Result<void> check_tokenizer(const Tokenizer& tokenizer, const ChatTokens& tokens,
                             const ModelConfig& config);

}  // namespace sluice
