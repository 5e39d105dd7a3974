// Whether a tokenizer and a config belong together.
#pragma once

#include "engine/model/config.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// corrupt: the tokenizer has ids beyond the config's vocabulary. unsupported, naming the field: the
// engine stops at and pads with the config's ids, and the tokenizer has others for those tokens.
Result<void> check_tokenizer(const Tokenizer& tokenizer, const ModelConfig& config);

}  // namespace sluice
