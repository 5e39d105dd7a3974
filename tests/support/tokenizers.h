// The tokenizers of the test checkpoints, loaded once.
#pragma once

#include <string>
#include <utility>

#include "engine/text/tokenizer.h"
#include "tests/support/paths.h"

namespace sluice::test {

inline Tokenizer load_tokenizer(const std::string& model) {
    return std::move(
        Tokenizer::load(std::string(models_folder) + "/" + model + "/tokenizer.json").value());
}

inline const Tokenizer& tiny_tokenizer() {
    static const Tokenizer loaded = load_tokenizer("dsv41-tiny");
    return loaded;
}

// Has no chat tokens.
inline const Tokenizer& random_tokenizer() {
    static const Tokenizer loaded = load_tokenizer("dsv41-rand-a");
    return loaded;
}

// That of DeepSeek-V4.
inline const Tokenizer& v4_tokenizer() {
    static const Tokenizer loaded = load_tokenizer("dsv4-rand-a");
    return loaded;
}

}  // namespace sluice::test
