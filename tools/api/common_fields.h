// Fields that several APIs have under the same name and with the same meaning.
#pragma once

#include "tools/api/fields.h"

namespace sluice {

// temperature (at most 2), top_p, top_k, min_p, penalties, logit_bias, seed, ignore_eos,
// loop_guard.
FieldTable sampling_fields();
// stream and stream_options, stop, model, n, and what identifies users and services.
FieldTable openai_fields();

// A limit on the answer's tokens; -1: as the context allows. It may be larger than the context:
// then that ends the answer.
Result<void> read_token_limit(const Json& value, Draft& draft);
Result<void> read_model(const Json& value, Draft& draft);
Result<void> read_stream(const Json& value, Draft& draft);
// A list of at most 16 strings, none of them empty; or one, as a string.
Result<void> read_stops(const Json& value, Draft& draft);

// Thinking on or off and its effort, as names or a number from 1 to 100 (API.md has the mapping).
Result<void> read_effort(const Json& value, Draft& draft);
// {"type": "enabled" | "adaptive" | "disabled"}
Result<void> read_thinking(const Json& value, Draft& draft);
// When all fields have been read: what they say of thinking itself beats what an effort implies.
void settle_thinking(Draft& draft);

}  // namespace sluice
