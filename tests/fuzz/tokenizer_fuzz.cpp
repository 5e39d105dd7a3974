// libFuzzer target: a hostile tokenizer.json, or hostile text for a good one, by the first byte.
// tests/dev/fuzz.sh builds and runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/text/answer_parser.h"
#include "engine/text/normalise.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

using namespace sluice;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

const Tokenizer& shipped() {
    static const Tokenizer loaded = [] {
        const char* path = std::getenv("SLUICE_FUZZ_TOKENIZER");
        require(path != nullptr, "SLUICE_FUZZ_TOKENIZER names a tokenizer.json");
        auto tokenizer = Tokenizer::load(path);
        require(tokenizer.has_value(), "the tokenizer loads");
        return std::move(*tokenizer);
    }();
    return loaded;
}

void round_trip(const Tokenizer& tokenizer, std::string_view text) {
    const auto ids = tokenizer.encode(text);
    require(tokenizer.decode(ids) == text, "decode(encode(text)) == text");
    for (int32_t id : ids) require(!tokenizer.is_added(id), "no added token from text");
    require(tokenizer.decode(tokenizer.encode_with_added(text)) == text, "the same with added");
}

// A stream of token ids: what is shown is UTF-8, and the same as the bytes at once.
void answer(std::string_view data) {
    AnswerParser parser(shipped(), &deepseek::chat_tokens, PromptMode::chat);
    Utf8Stream whole;
    std::string shown, expected;
    for (unsigned char byte : data) {
        const int32_t id = shipped().encode(std::string(1, static_cast<char>(byte)))[0];
        shown += parser.push(id).content;
        expected += whole.push(shipped().bytes(id));
    }
    shown += parser.finish().content;
    expected += whole.finish();
    require(shown == expected, "parsed answer is the stream's text");
    require(utf8_prefix(shown) == shown.size(), "shown text is UTF-8");
    normalise_for_engram(shown);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 3) {
        case 0:
            if (const auto tokenizer = Tokenizer::parse(rest)) round_trip(*tokenizer, "a<b> 12\n");
            break;
        case 1:
            round_trip(shipped(), rest);
            break;
        default:
            answer(rest);
    }
    return 0;
}
