#include "engine/text/tokenizer.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>
#include <random>

#include "engine/text/bpe.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/split_regex.h"
#include "io/clock.h"
#include "io/file.h"
#include "tests/engine/text/tokenizer_json.h"
#include "tests/support/paths.h"
#include "tests/support/tokenizers.h"

using namespace sluice;
using test::added_token;
using test::random_tokenizer;
using test::tiny_tokenizer;
using test::TokenizerJson;

namespace {

using Ids = std::vector<int32_t>;

Tokenizer made(const TokenizerJson& json) {
    auto parsed = Tokenizer::parse(json.text());
    REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
    return std::move(*parsed);
}

Error refusal(const TokenizerJson& json) {
    auto parsed = Tokenizer::parse(json.text());
    REQUIRE(!parsed);
    return parsed.error();
}

bool mentions(const Error& error, std::string_view what) {
    INFO(error.message);
    return error.message.find(what) != std::string::npos;
}

// The three splits of the DeepSeek family, as its tokenizer.json writes them.
PreTokenizer deepseek_splits() {
    const std::string path = std::string(test::models_folder) + "/dsv41-tiny/tokenizer.json";
    auto json = Json::parse(read_text(path, 1 << 20).value()).value();
    return std::move(PreTokenizer::parse(json["pre_tokenizer"]).value());
}

std::vector<std::string> pieces(std::string_view text) {
    static const PreTokenizer splits = deepseek_splits();
    std::vector<std::string_view> views;
    splits.split(text, views);
    return {views.begin(), views.end()};
}

using Pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("pre-tokenizer: digits come in threes from the left") {
    CHECK(pieces("1234567") == Pieces{"123", "456", "7"});
    CHECK(pieces("a12b") == Pieces{"a", "12", "b"});
    CHECK(pieces("٣٤٥٦") == Pieces{"٣٤٥", "٦"});
    CHECK(pieces("½²Ⅷ") == Pieces{"½²Ⅷ"});  // \p{N} includes No and Nl
    CHECK(pieces("3.14") == Pieces{"3", ".", "14"});
}

TEST_CASE("pre-tokenizer: han and kana are cut out before letters") {
    CHECK(pieces("日本語テスト") == Pieces{"日本語テスト"});
    CHECK(pieces("Go日本go") == Pieces{"Go", "日本", "go"});
    CHECK(pieces("㐀日") == Pieces{"㐀", "日"});  // extension A is an ordinary letter
    CHECK(pieces("한국어 ok") == Pieces{"한국어", " ok"});
}

TEST_CASE("pre-tokenizer: letters, punctuation and spaces") {
    CHECK(pieces("Hello, world!") == Pieces{"Hello", ",", " world", "!"});
    CHECK(pieces("don't") == Pieces{"don", "'t"});
    CHECK(pieces("x.get(a)") == Pieces{"x", ".get", "(a", ")"});
    CHECK(pieces("a  b") == Pieces{"a", " ", " b"});
    CHECK(pieces("a \t b") == Pieces{"a", " \t", " b"});
    CHECK(pieces("\tif") == Pieces{"\tif"});
    CHECK(pieces("end.\r\n\r\nNew") == Pieces{"end", ".\r\n\r\n", "New"});
    CHECK(pieces("a \n \n b") == Pieces{"a", " \n \n", " b"});
    CHECK(pieces("a   ") == Pieces{"a", "   "});
    CHECK(pieces("Fu\u0308hrer") == Pieces{"Fu\u0308hrer"});
    CHECK(pieces("a\u00a0b") == Pieces{"a", "\u00a0b"});
    CHECK(pieces("a\u2028b") == Pieces{"a", "\u2028b"});
    CHECK(pieces("a\u0085\u0085b") == Pieces{"a", "\u0085", "\u0085b"});
    CHECK(pieces("") == Pieces{});
    CHECK(pieces("\n") == Pieces{"\n"});
}

TEST_CASE("pre-tokenizer: the look-ahead does not see past a piece") {
    // The digits are a separate piece, so the spaces before them are at the end of theirs.
    CHECK(pieces("a   1") == Pieces{"a", "   ", "1"});
    CHECK(pieces("a   日") == Pieces{"a", "   ", "日"});
}

TEST_CASE("pre-tokenizer: U+180E is not a space, although PCRE2 counts it as one") {
    CHECK(pieces("  \u180e!") == Pieces{" ", " ", "\u180e", "!"});
    CHECK(pieces("\u180ea") == Pieces{"\u180ea"});
}

TEST_CASE("pre-tokenizer: bytes that are not UTF-8 are pieces of their own") {
    CHECK(pieces("ab\xff\xfe"
                 "cd") == Pieces{"ab", "\xff", "\xfe", "cd"});
    CHECK(pieces("\xe2\x82") == Pieces{"\xe2", "\x82"});
    CHECK(pieces("\xed\xa0\x80") == Pieces{"\xed", "\xa0", "\x80"});  // a surrogate
    CHECK(pieces("\xc0\xaf") == Pieces{"\xc0", "\xaf"});              // an overlong form
    CHECK(pieces(std::string_view("a\0b", 3)) == Pieces{"a", std::string("\0b", 2)});
}

TEST_CASE("split patterns outside the common subset are refused by construct") {
    const std::pair<const char*, const char*> cases[] = {
        {R"(\w+)", R"(\w)"},
        {R"(\h)", R"(\h)"},
        {R"((?<=a)b)", "(?<"},
        {R"((?i:'s))", "(?i"},
        {R"((?>a))", "(?>"},
        {"^a", "'^'"},
        {"a$", "'$'"},
        {"a.b", "'.'"},
        {R"(\p{Han}+)", "Han"},
        {R"(\pL)", "escape"},
        {"[a-z&&[aeiou]]", "&&"},
        {"[[:alpha:]]", "nested class"},
        {R"([\S])", "escape in a class"},
        {"[]a]", "class beginning"},
        {"[abc", "unclosed class"},
        {"a++", "possessive"},
        {"a{2}+", "quantifier"},
        {"a{,3}", "brace"},
        {"\\", "escape"},
        {"a*", "empty"},
        {"(a", "parenthes"},
        {"\xff", "UTF-8"},
    };
    for (const auto& [pattern, named] : cases) {
        CAPTURE(std::string(pattern));
        auto compiled = SplitRegex::compile(pattern);
        REQUIRE(!compiled);
        CHECK(compiled.error().code == Code::unsupported);
        CHECK(mentions(compiled.error(), named));
    }
}

TEST_CASE("a split pattern that backtracks without end gives up and keeps the text") {
    auto regex = std::move(SplitRegex::compile("(a+)+[bc]").value());
    SplitRegex::Scratch scratch;
    std::vector<std::string_view> found;
    const std::string text(5000, 'a');
    regex.split(text, scratch, found);
    std::string joined;
    for (std::string_view piece : found) joined += piece;
    CHECK(joined == text);
}

TEST_CASE("merges: best rank first, leftmost among equals, as by exhaustive search") {
    // Rules over a three-letter alphabet with long overlaps.
    const std::vector<std::pair<std::string, std::string>> rules{
        {"a", "b"}, {"b", "a"},   {"a", "a"},   {"ab", "a"},   {"aa", "aa"}, {"b", "b"},
        {"c", "a"}, {"ca", "ab"}, {"ba", "ba"}, {"aba", "ba"}, {"bb", "a"},  {"a", "ba"}};
    std::map<std::string, int32_t> vocabulary{{"a", 0}, {"b", 1}, {"c", 2}};
    std::map<std::pair<int32_t, int32_t>, std::pair<size_t, int32_t>> ranks;
    Bpe bpe;
    for (int32_t i = 0; i < 3; ++i) bpe.set_byte(static_cast<uint8_t>('a' + i), i);
    for (size_t i = 0; i < rules.size(); ++i) {
        const auto& [left, right] = rules[i];
        const auto fresh = static_cast<int32_t>(vocabulary.size());
        const int32_t id = vocabulary.try_emplace(left + right, fresh).first->second;
        ranks[{vocabulary.at(left), vocabulary.at(right)}] = {i, id};
        bpe.add_merge(vocabulary.at(left), vocabulary.at(right), id);
    }
    auto slowly = [&](const std::string& piece) {
        Ids ids;
        for (char c : piece) ids.push_back(c - 'a');
        for (;;) {
            size_t best = rules.size(), at = 0;
            for (size_t i = 0; i + 1 < ids.size(); ++i) {
                const auto rank = ranks.find({ids[i], ids[i + 1]});
                if (rank != ranks.end() && rank->second.first < best)
                    best = rank->second.first, at = i;
            }
            if (best == rules.size()) return ids;
            ids[at] = ranks.at({ids[at], ids[at + 1]}).second;
            ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        }
    };
    std::mt19937 random(7);
    Bpe::Scratch scratch;
    for (int round = 0; round < 3000; ++round) {
        std::string piece(random() % 40, ' ');
        for (char& c : piece) c = static_cast<char>('a' + random() % 3);
        Ids ids;
        bpe.encode(piece, scratch, ids);
        REQUIRE_MESSAGE(ids == slowly(piece), piece);
    }
}

TEST_CASE("tokenizer: the shipped models load, with every size and id in place") {
    CHECK(tiny_tokenizer().size() == 4096);
    CHECK(random_tokenizer().size() == 700);
    CHECK(tiny_tokenizer().id("<｜User｜>") == 4083);
    CHECK(tiny_tokenizer().id("</think>") == 4086);
    CHECK(!tiny_tokenizer().id("What"));
    CHECK(!random_tokenizer().id("<think>"));
    CHECK(tiny_tokenizer().is_added(0));
    CHECK(!tiny_tokenizer().is_added(316));
    CHECK(tiny_tokenizer().bytes(316) == "What");
    CHECK(tiny_tokenizer().vocabulary_string(308) == "Ġis");
    CHECK(tiny_tokenizer().bytes(308) == " is");
    for (int32_t out : {-1, 4096, INT32_MAX, INT32_MIN}) {
        CHECK(tiny_tokenizer().bytes(out).empty());
        CHECK(tiny_tokenizer().vocabulary_string(out).empty());
        CHECK(!tiny_tokenizer().is_added(out));
    }
    CHECK(tiny_tokenizer().encode("What is the capital of Australia?") ==
          Ids{316, 308, 277, 388, 273, 1951, 33});
    CHECK(tiny_tokenizer().encode("").empty());
}

TEST_CASE("tokenizer: any bytes come back from their ids") {
    rc::check("round trip", [](const std::string& bytes) {
        for (const Tokenizer* tokenizer : {&tiny_tokenizer(), &random_tokenizer()}) {
            const Ids ids = tokenizer->encode(bytes);
            RC_ASSERT(tokenizer->decode(ids) == bytes);
            for (int32_t id : ids) RC_ASSERT(!tokenizer->is_added(id));
        }
    });
    std::string all;
    for (int i = 0; i < 65536; ++i) {
        all += static_cast<char>(i >> 8);
        all += static_cast<char>(i);
    }
    CHECK(tiny_tokenizer().decode(tiny_tokenizer().encode(all)) == all);
}

TEST_CASE("tokenizer: text never becomes an added token, unless asked") {
    for (const Tokenizer* tokenizer : {&tiny_tokenizer(), &random_tokenizer()}) {
        int added = 0;
        for (int32_t id = 0; id < tokenizer->size(); ++id) {
            if (!tokenizer->is_added(id)) continue;
            ++added;
            const std::string content(tokenizer->bytes(id));
            for (const std::string& text : {content, "A" + content + "B", content + content,
                                            "\xff" + content, " " + content}) {
                const Ids ids = tokenizer->encode(text);
                for (int32_t found : ids) CHECK(!tokenizer->is_added(found));
                CHECK(tokenizer->decode(ids) == text);
                const Ids asked = tokenizer->encode_with_added(text);
                CHECK(std::count(asked.begin(), asked.end(), id) ==
                      (text == content + content ? 2 : 1));
                CHECK(tokenizer->decode(asked) == text);
            }
        }
        CHECK(added >= 3);
    }
}

TEST_CASE("tokenizer: added tokens by leftmost, then longest match, normalized ones last") {
    TokenizerJson json;
    json.added = added_token(300, "<a>") + "," + added_token(301, "<a><b>") + "," +
                 added_token(302, "b><", true) + "," + added_token(303, "a><c", true);
    const Tokenizer tokenizer = made(json);
    CHECK(tokenizer.encode_with_added("<a><b>") == Ids{301});
    CHECK(tokenizer.encode_with_added("<a><a>") == Ids{300, 300});
    CHECK(tokenizer.encode_with_added("b><x") == Ids{302, 'x'});
    // Further left, but only looked for between the matches of the others.
    CHECK(tokenizer.encode_with_added("b><a>") == Ids{'b', '>', 300});
    CHECK(tokenizer.encode_with_added("<a><c") == Ids{300, '<', 'c'});
    CHECK(tokenizer.encode_with_added("").empty());
    CHECK(tokenizer.encode_with_added("\xff<a>") == Ids{255, 300});
}

TEST_CASE("tokenizer: merges as strings and as pairs are the same") {
    TokenizerJson json;
    json.words = {"ab", " a", "abc"};
    json.merges = {{"a", "b"}, {" ", "a"}, {"ab", "c"}};
    const Tokenizer pairs = made(json);
    json.merge_strings = true;
    const Tokenizer strings = made(json);
    for (const char* text : {"abc", " abc", "ab ab", "cab"})
        CHECK(pairs.encode(text) == strings.encode(text));
    CHECK(pairs.encode(" abc") == Ids{32, 258});
    CHECK(pairs.encode(" a") == Ids{257});
}

TEST_CASE("tokenizer: ignore_merges takes whole pieces first, added tokens never") {
    TokenizerJson json;
    json.words = {"ab", "xyz", "<s>"};
    json.merges = {{"a", "b"}};
    json.model += R"(,"ignore_merges":true)";
    json.added = added_token(258, "<s>");
    const Tokenizer tokenizer = made(json);
    CHECK(tokenizer.encode("xyz") == Ids{257});
    CHECK(tokenizer.encode("xyzz") == Ids{'x', 'y', 'z', 'z'});
    CHECK(tokenizer.encode("<s>") == Ids{'<', 's', '>'});
}

namespace {

template <class Change>
void check_refused(Change change, const char* named) {
    TokenizerJson json;
    change(json);
    const Error error = refusal(json);
    CAPTURE(named);
    CHECK(error.code == Code::unsupported);
    CHECK(mentions(error, named));
}

}  // namespace

TEST_CASE("tokenizer.json: a pre-tokenizer that would change ids is refused by name") {
    auto pre_tokenizer = [](const std::string& text, const char* named) {
        check_refused([&](TokenizerJson& json) { json.pre_tokenizer = text; }, named);
    };
    auto split = [](const char* pattern, const char* behavior, const char* invert) {
        return cat(R"({"type":"Split","pattern":{)", pattern, R"(},"behavior":")", behavior,
                   R"(","invert":)", invert, "}");
    };
    auto sequence = [](const std::string& steps) {
        return cat(R"({"type":"Sequence","pretokenizers":[)", steps, "]}");
    };
    const std::string good = split(R"("Regex":"a")", "Isolated", "false");
    const std::string bytes = TokenizerJson{}.pre_tokenizer;
    pre_tokenizer(R"({"type":"Metaspace"})", "Metaspace");
    pre_tokenizer(sequence(good), "no ByteLevel");
    pre_tokenizer(sequence(bytes + "," + good), "after ByteLevel");
    pre_tokenizer(sequence(bytes + "," + bytes), "after ByteLevel");
    pre_tokenizer(R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false})",
                  "add_prefix_space");
    pre_tokenizer(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", "use_regex");
    pre_tokenizer(sequence(split(R"("Regex":"a")", "Removed", "false") + "," + bytes), "Removed");
    pre_tokenizer(sequence(split(R"("Regex":"a")", "Isolated", "true") + "," + bytes),
                  "pretokenizers[0].invert");
    pre_tokenizer(sequence(split(R"("String":"a")", "Isolated", "false") + "," + bytes), "String");
    pre_tokenizer(sequence(split(R"("Regex":"a*")", "Isolated", "false") + "," + bytes), "'a*'");
    const std::string accepted = sequence(good + "," + bytes);
    TokenizerJson json;
    json.pre_tokenizer = accepted;
    CHECK(Tokenizer::parse(json.text()));
}

TEST_CASE("tokenizer.json: what would change ids is refused by name") {
    using J = TokenizerJson;
    check_refused([](J& j) { j.normalizer = R"({"type":"NFC"})"; }, "normalizer: type 'NFC'");
    check_refused(
        [](J& j) { j.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"}]})"; },
        "normalizer");
    check_refused([](J& j) { j.model = R"("type":"Unigram")"; }, "model: type 'Unigram'");
    check_refused([](J& j) { j.model += R"(,"dropout":0.1)"; }, "dropout");
    check_refused([](J& j) { j.model += R"(,"byte_fallback":true)"; }, "byte_fallback");
    check_refused([](J& j) { j.model += R"(,"end_of_word_suffix":"</w>")"; }, "end_of_word_suffix");
    check_refused([](J& j) { j.model += R"(,"novelty":1)"; }, "novelty");
    check_refused([](J& j) { j.decoder = R"({"type":"WordPiece"})"; }, "WordPiece");
    check_refused([](J& j) { j.root = R"(,"novelty":1)"; }, "novelty");
    for (const char* flag : {"lstrip", "rstrip", "single_word"})
        check_refused([&](J& j) { j.added = added_token(300, "<x>", false, flag); }, flag);
    check_refused([](J& j) { j.added = added_token('a', "a"); }, "byte 97");
    check_refused(
        [](J& j) {
            j.words = {"ab"}, j.merges = {{"a", "b"}}, j.added = added_token(256, "ab");
        },
        "merges[0]");
    TokenizerJson empty_sequence;
    empty_sequence.normalizer = R"({"type":"Sequence","normalizers":[]})";
    CHECK(Tokenizer::parse(empty_sequence.text()));
}

TEST_CASE("tokenizer.json: contradictions are corrupt, with their place") {
    auto corrupt = [](auto change, const char* named) {
        TokenizerJson json;
        change(json);
        const Error error = refusal(json);
        CAPTURE(named);
        CHECK(error.code == Code::corrupt);
        CHECK(mentions(error, named));
    };
    using J = TokenizerJson;
    corrupt([](J& j) { j.merges = {{"q", "q"}}; }, "model.merges[0]: 'qq'");
    corrupt([](J& j) { j.added = added_token('b', "<x>"); }, "token id 98");
    corrupt([](J& j) { j.added = added_token(300, "<x>") + "," + added_token(300, "<y>"); }, "300");
    corrupt([](J& j) { j.added = added_token(300, "<x>") + "," + added_token(301, "<x>"); },
            "appears twice");
    corrupt([](J& j) { j.words = {"<x>"}, j.added = added_token(300, "<x>"); },
            "in the vocabulary");
    corrupt([](J& j) { j.added = added_token(300, ""); }, "without content");
    corrupt([](J& j) { j.added = added_token(-1, "<x>"); }, "-1");
    corrupt([](J& j) { j.added = added_token(1 << 24, "<x>"); }, "out of range");

    const std::string good = J{}.text();
    auto parse = [&](std::string_view from, std::string_view to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        auto parsed = Tokenizer::parse(text);
        REQUIRE(!parsed);
        return parsed.error();
    };
    CHECK(mentions(parse(R"("A":65)", R"("A":66)"), "token id 66"));
    CHECK(mentions(parse(R"("A":65)", R"("A":"65")"), "model.vocab.A"));
    CHECK(mentions(parse(R"("A":65)", R"("A":99999999999)"), "out of range"));
    CHECK(mentions(parse(R"("A":65,)", ""), "no token for byte 65"));
    CHECK(mentions(parse(R"("merges":[])", R"("merges":["a"])"), "not two parts"));
    CHECK(mentions(parse(R"("merges":[])", R"("merges":["a b c"])"), "not two parts"));
    CHECK(mentions(parse(R"("merges":[])", R"("merges":[["a"]])"), "two strings"));
    CHECK(mentions(parse(R"("merges":[])", R"("merges":[3])"), "model.merges[0]"));
    CHECK(mentions(parse(R"("merges":[])", R"("merges":{})"), "model.merges"));
    CHECK(mentions(parse(R"("truncation":null)", R"("truncation":{})"), "truncation"));
    for (const char* text : {"", "[]", "null", "{}", "{\"model\":3}", "\xff"})
        CHECK(!Tokenizer::parse(text));
}

TEST_CASE("tokenizer: a missing file is named") {
    auto missing = Tokenizer::load("/nonexistent/tokenizer.json");
    REQUIRE(!missing);
    CHECK(mentions(missing.error(), "/nonexistent/tokenizer.json"));
}

TEST_CASE("tokenizer: time grows in proportion to the length of a piece") {
#ifdef __SANITIZE_ADDRESS__
    constexpr double limit_s = 20;
#else
    constexpr double limit_s = 2;
#endif
    std::mt19937 random(3);
    std::string base64(2'000'000, ' ');
    for (char& c : base64)
        c = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[random() % 64];
    std::string han;
    while (han.size() < 1'000'000) append_utf8(han, 0x4e00 + random() % 20000);
    std::string controls(1'000'000, '\x01');
    std::string letters(1'000'000, ' ');
    for (char& c : letters) c = static_cast<char>('a' + random() % 26);
    const std::string texts[] = {std::string(1'000'000, 'a'),
                                 letters,
                                 base64,
                                 han,
                                 std::string(1'000'000, ' '),
                                 std::string(1'000'000, '\n'),
                                 std::string(1'000'000, '\xff'),
                                 controls};
    for (const std::string& text : texts) {
        for (const Tokenizer* tokenizer : {&tiny_tokenizer(), &random_tokenizer()}) {
            const auto begin = Clock::now();
            const Ids ids = tokenizer->encode(text);
            const double took = seconds_since(begin);
            CAPTURE(text.substr(0, 8));
            CHECK(took < limit_s);
            CHECK(tokenizer->decode(ids) == text);
        }
    }
}
