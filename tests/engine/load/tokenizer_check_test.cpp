#include "engine/load/tokenizer_check.h"

#include <doctest/doctest.h>

#include "engine/model/deepseek/chat_parts.h"
#include "tests/support/tokenizers.h"

namespace sluice {
namespace {

ModelConfig config() {
    ModelConfig made{};
    made.vocab = 4096;
    made.bos = 0;
    made.eos = 1;
    return made;
}

std::string refusal(const ModelConfig& config) {
    const auto checked = check_tokenizer(test::tiny_tokenizer(), deepseek::chat_tokens, config);
    REQUIRE_FALSE(checked);
    return checked.error().message;
}

TEST_CASE("tokenizer and config: ids that disagree are refused, naming the field") {
    CHECK(check_tokenizer(test::tiny_tokenizer(), deepseek::chat_tokens, config()));
    ModelConfig wrong = config();
    wrong.bos = 5;
    CHECK(refusal(wrong).find("bos_token_id is 5") != std::string::npos);
    wrong = config();
    wrong.eos = 2;
    CHECK(refusal(wrong).find("eos_token_id is 2") != std::string::npos);
    wrong = config();
    wrong.vocab = 4095;
    CHECK(refusal(wrong).find("vocab_size is 4095, but tokenizer.json has token id 4095") !=
          std::string::npos);
}

}  // namespace
}  // namespace sluice
