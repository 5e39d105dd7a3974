// The parts of a reply of /v1/responses: output items, and the response that holds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/api/reply_parts.h"

namespace sluice {

// One entry of `output`: kind reasoning, message or function_call.
struct OutputItem {
    enum class Kind { reasoning, message, call };
    Kind kind;
    std::string id;
    std::string text = {};                     // not of a call
    ToolCall call = {};                        // with its id
    std::vector<TokenLogprobs> logprobs = {};  // of a message
};

enum class ItemStatus { in_progress, completed };

// The item as an object. In progress, it is empty. Without a tokenizer, here and below, there are
// no log-probabilities.
void write_item(JsonWriter& json, const OutputItem& item, ItemStatus status,
                const Tokenizer* tokenizer);
// The only part of an item's content: {"type": "output_text", ...}.
void write_part(JsonWriter& json, const OutputItem& item, ItemStatus status,
                const Tokenizer* tokenizer);
void write_item_logprobs(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                         const Tokenizer* tokenizer);

// The response. answer and error: nullptr while it is in progress.
std::string response_object(const ApiRequest& request, const ReplyFacts& facts,
                            const std::vector<OutputItem>& output, const Answer* answer,
                            const Error* error);

}  // namespace sluice
