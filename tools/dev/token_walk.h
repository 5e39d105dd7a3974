// Random answers under a constraint: any allowed token, and after `tokens` the shortest way out.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "engine/text/token_constraint.h"
#include "engine/text/token_mask.h"
#include "engine/text/tokenizer.h"

namespace sluice {

class TokenWalk {
 public:
    TokenWalk(const Tokenizer& tokenizer, int32_t end_token)
        : tokenizer_(tokenizer), end_token_(end_token) {
        for (int32_t id = 0; id < tokenizer.size(); ++id) {
            const auto bytes = tokenizer.bytes(id);
            if (bytes.size() == 1 && !tokenizer.is_added(id))
                of_byte_[static_cast<uint8_t>(bytes[0])] = id;
        }
    }

    // Nothing if no token was allowed, or the end did not come. `visit` sees each mask before a
    // token is chosen.
    template <class Visit>
    std::optional<std::string> run(TokenConstraint& constraint, uint64_t seed, size_t tokens,
                                   Visit visit) const {
        std::mt19937_64 random(seed);
        TokenMask mask(static_cast<size_t>(tokenizer_.size()));
        std::string text;
        for (size_t i = 0; i < tokens + 20000; ++i) {
            if (constraint.complete()) return text;
            constraint.allowed(mask);
            visit(mask);
            if (mask.count() == 0) return std::nullopt;
            const int32_t id = i < tokens ? any(mask, random) : out(mask);
            constraint.accept(id);
            if (id == end_token_) return text;
            text += tokenizer_.bytes(id);
        }
        return std::nullopt;
    }
    std::optional<std::string> run(TokenConstraint& constraint, uint64_t seed,
                                   size_t tokens) const {
        return run(constraint, seed, tokens, [](const TokenMask&) {});
    }

 private:
    static int32_t any(const TokenMask& mask, std::mt19937_64& random) {
        uint64_t left = random() % mask.count();
        int32_t chosen = -1;
        mask.each([&](int32_t id) {
            if (left-- == 0) chosen = id;
        });
        return chosen;
    }
    int32_t out(const TokenMask& mask) const {
        if (mask.has(end_token_)) return end_token_;
        for (char byte : std::string_view("\"}]:0n")) {
            const int32_t id = of_byte_[static_cast<uint8_t>(byte)];
            if (mask.has(id)) return id;
        }
        int32_t first = -1;
        for (int32_t id : of_byte_)
            if (first < 0 && mask.has(id)) first = id;
        return first;
    }

    const Tokenizer& tokenizer_;
    int32_t end_token_;
    int32_t of_byte_[256] = {};
};

}  // namespace sluice
