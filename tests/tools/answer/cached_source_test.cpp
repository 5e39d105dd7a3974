#include "tools/answer/cached_source.h"

#include <doctest/doctest.h>

#include <numeric>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/model/deepseek_v41/chat.h"
#include "engine/text/prompt.h"
#include "tests/support/models.h"
#include "tools/answer/generate.h"

namespace sluice::test {
namespace {

constexpr int32_t user = 1'000'000;

std::vector<int32_t> plain(int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

using Positions = std::vector<int32_t>;

}  // namespace

TEST_CASE("a prompt is kept but for its last token") {
    CHECK(checkpoint_positions(plain(20), 0, user) == Positions{19});
    CHECK(checkpoint_positions(plain(20), 18, user) == Positions{19});
    CHECK(checkpoint_positions(plain(20), 19, user).empty());
    CHECK(checkpoint_positions(plain(1), 0, user).empty());
    CHECK(checkpoint_positions({}, 0, user).empty());
}

TEST_CASE("the start of the last user message is kept where much lies before it") {
    auto ids = plain(200);
    ids[40] = ids[150] = user;
    CHECK(checkpoint_positions(ids, 0, user) == Positions{150, 199});
    CHECK(checkpoint_positions(ids, 118, user) == Positions{150, 199});
    CHECK(checkpoint_positions(ids, 119, user) == Positions{199});
    CHECK(checkpoint_positions(ids, 160, user) == Positions{199});
    CHECK(checkpoint_positions(ids, 0, -1) == Positions{199});
    ids = plain(20);
    ids[1] = user;
    CHECK(checkpoint_positions(ids, 0, user) == Positions{19});
}

TEST_CASE("a long prompt is kept at equal steps, at most eight of them") {
    CHECK(checkpoint_positions(plain(4097), 0, user) == Positions{4096});
    CHECK(checkpoint_positions(plain(10000), 0, user) == Positions{4096, 8192, 9999});
    CHECK(checkpoint_positions(plain(10000), 4096, user) == Positions{8192, 9999});
    CHECK(checkpoint_positions(plain(8 * 4096 + 4000), 0, user).size() == 9);
    const Positions longer = checkpoint_positions(plain(9 * 4096), 0, user);
    CHECK(longer == Positions{8192, 16384, 24576, 32768, 9 * 4096 - 1});
    const Positions most = checkpoint_positions(plain(1'000'000), 0, user);
    CHECK(most.size() <= 9);
    CHECK(most.front() % 4096 == 0);
}

TEST_CASE("answers in turns are the same with the cache and need only the tail of a prompt") {
    EngineOptions options = model_options("dsv41-tiny");
    options.prompt_snapshots = 20;
    const auto engine = load_engine(options);
    const auto session = open_session(*engine);
    PromptCache prompts(*engine, *session, {});
    const Tokenizer& tokenizer = engine->tokenizer();
    const PromptOptions chat;
    const auto encoded = [&](const std::vector<Message>& messages) {
        auto ids = encode_chat(tokenizer, deepseek_v41_chat, messages, chat);
        REQUIRE(ids);
        return *ids;
    };
    GenerateOptions wanted;
    wanted.sampler.temperature = 0;
    wanted.predict = 12;
    wanted.context = engine->settings().context;
    const auto answer = [&](TokenSource& source, const std::vector<Message>& messages) {
        auto done = generate(source, tokenizer, engine->config().end_tokens, encoded(messages),
                             wanted, [](const AnswerStream::Piece&) { return true; });
        REQUIRE(done);
        return *done;
    };
    const auto plain_text = [&](const std::vector<Message>& messages) {
        session->reset();
        SessionSource source(*session);
        return answer(source, messages).text;
    };
    CachedSource source(*session, prompts, tokenizer, deepseek::chat_tokens);
    std::string long_text;
    for (int i = 0; i < 30; ++i) long_text += "The river runs to the sea. ";
    std::vector<Message> first = {{Role::system, long_text}, {Role::user, "Where is it?"}};
    const Answer one = answer(source, first);
    CHECK(one.cached_by == KeptBy::nothing);
    CHECK(one.text == plain_text(first));

    const Answer again = answer(source, first);  // another answer to it
    CHECK(again.text == one.text);
    CHECK(again.cached_tokens == again.prompt_tokens - 1);
    CHECK(again.cached_by == KeptBy::memory);

    auto edited = first;
    edited.back().content = "Who swims in it?";
    const Answer other = answer(source, edited);
    CHECK(other.cached_by == KeptBy::memory);
    CHECK(other.prompt_tokens - other.cached_tokens < 20);
    CHECK(other.text == plain_text(edited));

    auto second = first;  // the first conversation goes on, after the edited one
    second.push_back({Role::assistant, one.text});
    second.push_back({Role::user, "And then?"});
    const Answer two = answer(source, second);
    CHECK(two.cached_by == KeptBy::memory);
    CHECK(two.cached_tokens >= one.prompt_tokens - 1);
    CHECK(two.text == plain_text(second));
}

}  // namespace sluice::test
