#include "tools/api/token_texts.h"

#include <algorithm>
#include <cmath>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

// What OpenAI writes for a token without any probability: JSON has no infinity.
constexpr double impossible = -9999.0;

double finite(double logprob) {
    return std::isfinite(logprob) ? logprob : impossible;
}

void write_token(JsonWriter& json, const TokenLogprob& token, const Tokenizer& tokenizer) {
    const std::string_view bytes = tokenizer.bytes(token.id);
    json.member("token", bytes).member("logprob", finite(token.logprob)).key("bytes").begin_array();
    for (const char c : bytes) json.value(static_cast<int>(static_cast<uint8_t>(c)));
    json.end_array();
}

bool is_text(std::string_view bytes) {
    while (!bytes.empty()) {
        const size_t length = utf8_length(bytes);
        if (length == 0) return false;
        bytes.remove_prefix(length);
    }
    return true;
}

std::string column_text(int32_t id, const Tokenizer& tokenizer) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (is_text(bytes)) return std::string(bytes);
    std::string out = "bytes:";
    for (const char c : bytes) out += formatted("\\x{:02x}", static_cast<uint8_t>(c));
    return out;
}

// Characters that begin in `bytes`.
uint64_t characters(std::string_view bytes) {
    return static_cast<uint64_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) {
        return (static_cast<uint8_t>(c) & 0xc0) != 0x80;
    }));
}

}  // namespace

void write_token_list(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                      const Tokenizer& tokenizer) {
    json.begin_array();
    for (const TokenLogprobs& position : tokens) {
        json.begin_object();
        write_token(json, position.chosen, tokenizer);
        json.key("top_logprobs").begin_array();
        for (const TokenLogprob& candidate : position.best) {
            json.begin_object();
            write_token(json, candidate, tokenizer);
            json.end_object();
        }
        json.end_array().end_object();
    }
    json.end_array();
}

void write_token_columns(JsonWriter& json, std::span<const TokenLogprobs> tokens,
                         const Tokenizer& tokenizer, uint64_t& offset) {
    json.begin_object().key("tokens").begin_array();
    for (const auto& position : tokens) json.value(column_text(position.chosen.id, tokenizer));
    json.end_array().key("token_logprobs").begin_array();
    for (const auto& position : tokens) json.value(finite(position.chosen.logprob));
    json.end_array().key("top_logprobs").begin_array();
    for (const auto& position : tokens) {
        json.begin_object();
        for (const auto& candidate : position.best) {
            json.member(column_text(candidate.id, tokenizer), finite(candidate.logprob));
        }
        json.end_object();
    }
    json.end_array().key("text_offset").begin_array();
    for (const auto& position : tokens) {
        json.value(offset);
        offset += characters(tokenizer.bytes(position.chosen.id));
    }
    json.end_array().end_object();
}

}  // namespace sluice
