#include "engine/text/answer_parser.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "tests/support/tokenizers.h"

using namespace sluice;
using test::tiny_tokenizer;

namespace {

using Ids = std::vector<int32_t>;

const std::string eos(deepseek::chat_tokens.end);

// The texts of a scripted stream, in which the name of a control token stands for the token.
struct Answer {
    std::string reasoning, content;
    AnswerParser::Piece last;
    bool unclosed, in_reasoning;
};

Answer parse(PromptMode mode, const std::vector<std::string>& stream) {
    AnswerParser parser(tiny_tokenizer(), &deepseek::chat_tokens, mode);
    Answer answer{};
    auto take = [&](const AnswerParser::Piece& piece) {
        answer.reasoning += piece.reasoning;
        answer.content += piece.content;
    };
    for (const std::string& part : stream) {
        if (const auto control = tiny_tokenizer().id(part)) {
            take(parser.push(*control));
        } else {
            for (int32_t id : tiny_tokenizer().encode(part)) take(parser.push(id));
        }
    }
    answer.in_reasoning = parser.in_reasoning();
    answer.last = parser.finish();
    take(answer.last);
    answer.unclosed = parser.unclosed();
    return answer;
}

}  // namespace

TEST_CASE("answer: reasoning up to the closing tag, then content") {
    const Answer answer = parse(PromptMode::thinking, {"Let me see.", "</think>", "It is 4.", eos});
    CHECK(answer.reasoning == "Let me see.");
    CHECK(answer.content == "It is 4.");
    CHECK(!answer.unclosed);
    const Answer at_once = parse(PromptMode::thinking, {"</think>", "4"});
    CHECK(at_once.reasoning.empty());
    CHECK(at_once.content == "4");
    const Answer chat = parse(PromptMode::chat, {"4", eos});
    CHECK(chat.content == "4");
    CHECK(chat.reasoning.empty());
    CHECK(!chat.unclosed);
}

TEST_CASE("answer: a thought that never closes is the content, flagged") {
    const Answer answer = parse(PromptMode::thinking, {"The answer ", "is 4.", eos});
    CHECK(answer.in_reasoning);
    CHECK(answer.unclosed);
    CHECK(answer.last.content == "The answer is 4.");
    CHECK(answer.content == "The answer is 4.");
    const Answer empty = parse(PromptMode::thinking, {});
    CHECK(empty.unclosed);
    CHECK(empty.content.empty());
}

TEST_CASE("answer: a thought that never closes stays reasoning if asked to") {
    AnswerParser parser(tiny_tokenizer(), &deepseek::chat_tokens, PromptMode::thinking);
    std::string reasoning;
    for (int32_t id : tiny_tokenizer().encode("Über 20 °C")) reasoning += parser.push(id).reasoning;
    const AnswerParser::Piece last = parser.finish(Unclosed::stays_reasoning);
    CHECK(reasoning + last.reasoning == "Über 20 °C");
    CHECK(last.content.empty());
    CHECK(!parser.unclosed());
}

TEST_CASE("answer: unexpected tags and control tokens appear in no text") {
    const Answer twice =
        parse(PromptMode::thinking, {"<think>", "a", "<think>", "b", "</think>", "c"});
    CHECK(twice.reasoning == "ab");
    CHECK(twice.content == "c");
    const Answer off = parse(PromptMode::chat, {"<think>", "a", "</think>", "b"});
    CHECK(off.reasoning == "a");
    CHECK(off.content == "b");
    const Answer stray =
        parse(PromptMode::chat, {"a", "</think>", "b", "<｜User｜>", "c", "｜DSML｜"});
    CHECK(stray.content == "abc");
    CHECK(stray.reasoning.empty());
    const Answer second = parse(PromptMode::thinking, {"a", "</think>", "b", "<think>", "c"});
    CHECK(second.reasoning == "ac");
    CHECK(second.content == "bc");  // only the open thought is repeated
    CHECK(second.unclosed);
    // The letters of a tag are text; only the token ends a thought.
    AnswerParser parser(tiny_tokenizer(), &deepseek::chat_tokens, PromptMode::thinking);
    std::string reasoning;
    for (int32_t id : tiny_tokenizer().encode("```\n</think>\n```"))
        reasoning += parser.push(id).reasoning;
    CHECK(reasoning == "```\n</think>\n```");
    CHECK(parser.in_reasoning());
}

TEST_CASE(
    "answer: a character split between tokens comes out whole, but not across a control token") {
    const std::string text = "日本語 👩‍👩‍👧 naïve";
    AnswerParser parser(tiny_tokenizer(), &deepseek::chat_tokens, PromptMode::chat);
    std::string content;
    for (unsigned char byte : text) {
        const Ids one = tiny_tokenizer().encode(std::string(1, static_cast<char>(byte)));
        REQUIRE(one.size() == 1);
        content += parser.push(one[0]).content;
    }
    content += parser.finish().content;
    CHECK(content == text);

    AnswerParser cut(tiny_tokenizer(), &deepseek::chat_tokens, PromptMode::thinking);
    CHECK(cut.push(tiny_tokenizer().encode("\xe6")[0]).reasoning.empty());
    const auto closed = cut.push(*tiny_tokenizer().id("</think>"));
    CHECK(closed.reasoning == "\xef\xbf\xbd");
    CHECK(closed.content.empty());
    CHECK(cut.push(tiny_tokenizer().encode("\xff")[0]).content == "\xef\xbf\xbd");
    cut.push(tiny_tokenizer().encode("\xe6")[0]);
    CHECK(cut.finish().content == "\xef\xbf\xbd");
}

TEST_CASE("answer: ids outside the vocabulary have no text") {
    AnswerParser parser(tiny_tokenizer(), &deepseek::chat_tokens, PromptMode::chat);
    for (int32_t id : {-1, 4096, INT32_MAX}) CHECK(parser.push(id).content.empty());
}
