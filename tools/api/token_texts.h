// Log-probabilities in replies: tokens as text and bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/text/logprobs.h"
#include "engine/text/tokenizer.h"
#include "tools/answer/json_writer.h"

namespace sluice {

// As chat completions and responses have them, a list: [{"token", "logprob", "bytes",
// "top_logprobs"}]. A token that is no text of its own is shown with U+FFFD; its bytes are exact.
void write_token_list(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                      const Tokenizer& tokenizer);

// As text completions have them: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. A
// token that is no text of its own is written "bytes:\xe2\x80". Offsets count characters from
// `offset`, which is moved past these tokens.
void write_token_columns(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                         const Tokenizer& tokenizer, uint64_t& offset);

}  // namespace sluice
