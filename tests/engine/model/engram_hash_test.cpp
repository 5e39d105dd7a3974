#include "engine/model/engram_hash.h"

#include <doctest/doctest.h>

#include <numeric>
#include <set>

#include "engine/model/numpy_random.h"
#include "engine/text/normalise.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"
#include "tests/engine/text/tokenizer_json.h"
#include "tests/support/paths.h"
#include "tests/support/tokenizers.h"

using namespace sluice;

namespace {

constexpr int32_t image = -1;

// The Engram configuration of the release.
ModelConfig full_size() {
    ModelConfig config{};
    config.vocab = 129280;
    config.image_token = 129264;
    config.engram_layers = {1, 14};
    config.engram_rows = {384006168, 384016682};
    config.engram_ngram = 4;
    config.engram_heads = 8;
    config.engram_vocab = 16000000;
    config.engram_compressed_vocab = 99092;
    config.engram_pad = 2;
    return config;
}

ModelConfig config_of(const std::string& model) {
    const std::string text =
        read_text(cat(test::models_folder, "/", model, "/config.json"), 1 << 20).value();
    const Json root = Json::parse(text).value(), json = root["text_config"];
    const auto number = [&](std::string_view name) {
        return static_cast<int32_t>(json[name].integer().value());
    };
    ModelConfig config{};
    config.vocab = number("vocab_size");
    config.image_token = static_cast<int32_t>(root["image_token_id"].integer().value());
    const auto layers = json["engram_layer_ids"].integers().value();
    for (int64_t layer : layers) config.engram_layers.push_back(static_cast<int32_t>(layer));
    config.engram_rows = json["engram_num_embeddings"].integers().value();
    config.engram_ngram = number("engram_max_ngram_size");
    config.engram_heads = number("engram_n_heads");
    config.engram_vocab = number("engram_vocab_size");
    config.engram_compressed_vocab = number("engram_compressed_vocab_size");
    config.engram_pad = number("engram_pad_token_id");
    return config;
}

std::vector<int32_t> identity(int32_t size) {
    std::vector<int32_t> map(static_cast<size_t>(size));
    std::iota(map.begin(), map.end(), 0);
    return map;
}

const EngramHash& full_hash() {
    static const EngramHash hash =
        std::move(EngramHash::create(full_size(), identity(129280)).value());
    return hash;
}

// The rows of the last position of a sequence of compressed ids.
std::vector<uint64_t> last_rows(size_t which, const std::vector<int32_t>& ids) {
    std::vector<uint64_t> rows(ids.size() * 24);
    full_hash().rows_of_compressed(which, {}, ids, rows);
    return {rows.end() - 24, rows.end()};
}

}  // namespace

TEST_CASE("engram: primes and multipliers of the release") {
    const EngramHash& hash = full_hash();
    CHECK(hash.multipliers(0) ==
          std::vector<uint64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391});
    CHECK(hash.multipliers(1) ==
          std::vector<uint64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591});
    CHECK(hash.primes(0) == std::vector<int64_t>{16000057, 16000079, 16000081, 16000097, 16000121,
                                                 16000129, 16000133, 16000183, 16000189, 16000207,
                                                 16000211, 16000253, 16000277, 16000289, 16000307,
                                                 16000321, 16000339, 16000381, 16000393, 16000399,
                                                 16000403, 16000409, 16000447, 16000463});
    CHECK(hash.primes(1) == std::vector<int64_t>{16000477, 16000487, 16000499, 16000507, 16000511,
                                                 16000573, 16000609, 16000627, 16000667, 16000669,
                                                 16000693, 16000697, 16000711, 16000729, 16000759,
                                                 16000769, 16000781, 16000799, 16000813, 16000819,
                                                 16000841, 16000877, 16000879, 16000889});
}

TEST_CASE("engram: constants of other configurations") {
    const auto hash_of = [](const std::string& model) {
        const ModelConfig config = config_of(model);
        return std::move(EngramHash::create(config, identity(config.vocab)).value());
    };
    const EngramHash tiny = hash_of("dsv41-tiny"), rand_a = hash_of("dsv41-rand-a");
    CHECK(tiny.multipliers(0) == std::vector<uint64_t>{2194690075553361, 138610694173013,
                                                       1029860072100857, 2118946024111855});
    CHECK(rand_a.multipliers(0) ==
          std::vector<uint64_t>{16400923674761627, 1035838016930071, 7696146543129511});
    CHECK(rand_a.multipliers(1) ==
          std::vector<uint64_t>{17605463467299525, 1078196300539633, 15763430031382459});
    CHECK(rand_a.primes(0) == std::vector<int64_t>{307, 311, 313, 317, 331, 337});
    CHECK(rand_a.primes(1) == std::vector<int64_t>{347, 349, 353, 359, 367, 373});
}

TEST_CASE("engram: published rows, from compressed ids") {
    struct Vector {
        std::vector<int32_t> ids;
        size_t which;
        uint64_t rows[6];  // columns 0, 1, 2, 8, 16, 23
    };
    const Vector vectors[] = {
        {{0}, 0, {5702652, 24393184, 39183301, 131476717, 257520185, 380066193}},
        {{0}, 1, {14361964, 29977809, 32716444, 132225184, 261362261, 372375971}},
        {{0, 5}, 0, {11226917, 28385813, 44491313, 136388899, 268359617, 377806529}},
        {{0, 5}, 1, {7960361, 20358449, 38436612, 136099190, 265679316, 380929865}},
        {{0, 5, 1234}, 0, {10877269, 29696037, 35788220, 129152537, 259919087, 377026596}},
        {{0, 5, 1234}, 1, {7395781, 28858737, 45099984, 138321443, 265543574, 369833640}},
        {{0, 5, 1234, 99091}, 0, {7841506, 26173565, 36537651, 129075047, 265136833, 372287723}},
        {{0, 5, 1234, 99091}, 1, {3315102, 30010869, 33829090, 137454536, 269273339, 369867109}},
        {{0, 5, 1234, 99091, 42},
         0,
         {13131409, 22107638, 46286683, 134119987, 264881669, 370078715}},
        {{0, 5, 1234, 99091, 42},
         1,
         {3275938, 25911066, 45539186, 142196500, 259838692, 369755167}},
    };
    for (const Vector& vector : vectors) {
        const auto rows = last_rows(vector.which, vector.ids);
        const size_t columns[] = {0, 1, 2, 8, 16, 23};
        for (size_t i = 0; i < 6; ++i) CHECK(rows[columns[i]] == vector.rows[i]);
    }
    const auto rows = last_rows(0, {7, image, 9, 10});
    CHECK(rows[0] == 9949191);
    CHECK(rows[1] == 18889977);
    CHECK(rows[8] == 129722024);
    CHECK(rows[16] == 269498096);
}

TEST_CASE("engram: an image hides itself and all before it") {
    // At an image position everything is padding, as for a padding token at a sequence start.
    CHECK(last_rows(0, {5, 6, 7, image}) == last_rows(0, {2}));
    CHECK(last_rows(0, {image}) == last_rows(0, {2}));
    CHECK(last_rows(1, {1, 2, 3, image, 9}) == last_rows(1, {9}));
    CHECK(last_rows(1, {3, 9}) != last_rows(1, {9}));
    CHECK(last_rows(0, {8, image, 7, 9}) == last_rows(0, {7, 9}));
    // Rows of image positions by raw id.
    const EngramHash& hash = full_hash();
    std::vector<uint64_t> raw(48), compressed(48);
    hash.rows(0, {}, std::vector<int32_t>{129264, 9}, raw);
    hash.rows_of_compressed(0, {}, std::vector<int32_t>{image, 9}, compressed);
    CHECK(raw == compressed);
}

TEST_CASE("engram: any cut of a sequence gives the same rows") {
    const EngramHash& hash = full_hash();
    const std::vector<int32_t> ids{0, 5, 1234, 99091, 42, 129264, 7, 8, 9, 10, 11};
    std::vector<uint64_t> whole(ids.size() * 24);
    hash.rows(1, {}, ids, whole);
    for (size_t cut = 0; cut <= ids.size(); ++cut) {
        // The whole history, or only the three ids that a row depends on.
        for (size_t begin : {size_t{0}, cut > 3 ? cut - 3 : 0}) {
            std::vector<uint64_t> rest((ids.size() - cut) * 24);
            const std::span<const int32_t> all(ids);
            hash.rows(1, all.subspan(begin, cut - begin), all.subspan(cut), rest);
            CHECK(std::equal(rest.begin(), rest.end(),
                             whole.begin() + static_cast<std::ptrdiff_t>(cut * 24), whole.end()));
        }
    }
}

TEST_CASE("engram: rows stay inside their columns") {
    const EngramHash& hash = full_hash();
    for (int32_t first : {0, 1, 50000, 99091}) {
        const auto rows = last_rows(0, {99091, 99091, first, 99091 - first});
        uint64_t offset = 0;
        for (size_t c = 0; c < 24; ++c) {
            CHECK(rows[c] >= offset);
            offset += static_cast<uint64_t>(hash.primes(0)[c]);
            CHECK(rows[c] < offset);
        }
    }
}

TEST_CASE("engram: numpy's default generator") {
    CHECK(numpy_integers(0, uint64_t{1} << 40, 4) ==
          std::vector<uint64_t>{700346781657, 296633628802, 45050865998, 18172327443});
    // Here half of the draws are repeated, and the seeds have more than 32 bits.
    CHECK(numpy_integers(123456789012345, (uint64_t{1} << 63) + 1, 6) ==
          std::vector<uint64_t>{4888451446932539251, 409905968253644231, 6985422188269523246,
                                4354376248621143813, 501194379747296185, 6846757277198571979});
    CHECK(numpy_integers(~uint64_t{0}, 1'000'000'000'000'000'000, 4) ==
          std::vector<uint64_t>{680026678961693200, 7403081599260095, 894568126439147372,
                                128965234524741721});
}

TEST_CASE("engram: primes by sieve") {
    std::vector<bool> composite(30000);
    std::vector<int64_t> sieve;
    for (size_t i = 2; i < composite.size(); ++i) {
        if (composite[i]) continue;
        sieve.push_back(static_cast<int64_t>(i));
        for (size_t k = i * i; k < composite.size(); k += i) composite[k] = true;
    }
    CHECK(primes_from(0, sieve.size()) == sieve);
    CHECK(primes_from(-7, 3) == std::vector<int64_t>{2, 3, 5});
    CHECK(primes_from(3, 1) == std::vector<int64_t>{3});
    CHECK(primes_from(24, 2) == std::vector<int64_t>{29, 31});
    CHECK(primes_from(100, 0).empty());
}

TEST_CASE("engram: normalisation") {
    const std::pair<const char*, const char*> cases[] = {
        {"Éﬁ Ａ", "efi a"},
        {" ", " "},
        {"", ""},
        {"   ", " "},
        {" \t\r\n ", " "},
        {"\t", " "},
        {"\v", ""},
        {"\u2003", " "},  // NFKC makes it a space
        {"\u2028", ""},   // white space, and not a space
        {"\u0085", ""},
        {"\u00a0x\u3000", "x"},
        {" a  b\n", "a b"},
        {"a\u00a0 b", "a b"},
        {"\u1680a\u205f", "a"},
        {"\u0301", ""},              // Mn
        {"\u093f\u0915", "\u0915"},  // Mc goes too
        {"a\u20dd", "a"},            // Me
        {"\u0958", "\u0915"},
        {"İI", "ii"},
        {"ΑΣ", "ασ"},  // per character, so no final sigma
        {"ẞß", "ßß"},
        {"ǅ", "dz"},
        {"Ⅳ½", "iv1⁄2"},
        {"가", "\u1100\u1161"},  // NFD takes syllables apart
        {"\ue000", " "},         // stands for a lone space, even if it was in the text
        {"x\ue000", "x "},
        {"\u212b", "a"},
        {"Ꭰ", "ꭰ"},
    };
    for (const auto& [text, expected] : cases) {
        CAPTURE(text);
        CHECK(normalise_for_engram(text) == expected);
    }
}

TEST_CASE("engram: the maps of the shipped models") {
    const auto map_of = [](const std::string& model) {
        const auto map = compressed_token_map(test::load_tokenizer(model), config_of(model));
        REQUIRE_MESSAGE(map, (map ? "" : map.error().message));
        return *map;
    };
    const auto sum = [](const std::vector<int32_t>& map) {
        return checksum_text(checksum(map.data(), map.size() * sizeof(int32_t)));
    };
    const auto tiny = map_of("dsv41-tiny"), rand_a = map_of("dsv41-rand-a");
    CHECK(tiny.size() == 4096);
    CHECK(std::set<int32_t>(tiny.begin(), tiny.end()).size() == 3460);
    CHECK(rand_a.size() == 700);
    CHECK(std::set<int32_t>(rand_a.begin(), rand_a.end()).size() == 463);
    // Checksums of the maps that Hugging Face's normalizers and Python's unicodedata give.
    CHECK(sum(tiny) == "486c3ccb30411b51");
    CHECK(sum(rand_a) == "031c1565d9959789");
}

TEST_CASE("engram: keys of a map") {
    test::TokenizerJson json;
    json.words = {"Ab", "ab", " AB", "\xc3\xa9", "\xef\xbf\xbd", "\xcc\x81", "\xe0\xa4\xbf", "FI"};
    json.added = test::added_token(264, "ﬁ") + "," + test::added_token(266, "<x>");
    auto tokenizer = Tokenizer::parse(json.text());
    REQUIRE(tokenizer);
    ModelConfig config{};
    config.vocab = 268;
    const auto wrong = compressed_token_map(*tokenizer, config);
    REQUIRE(!wrong);
    CHECK(wrong.error().code == Code::unsupported);
    CHECK(wrong.error().message.find("is 0, but tokenizer.json gives") != std::string::npos);
    const auto digits = wrong.error().message.find("gives ") + 6;
    config.engram_compressed_vocab = std::stoi(wrong.error().message.substr(digits));
    const auto map = compressed_token_map(*tokenizer, config).value();
    CHECK(map['A'] == map['a']);
    CHECK(map[' '] == map['\t']);
    CHECK(map[256] == map[257]);
    CHECK(map[256] == map[258]);
    CHECK(map[259] == map['e']);
    CHECK(map[264] == map[263]);    // an added token is normalised as its content
    CHECK(map[0xc3] != map[0xe3]);  // parts of characters keep their vocabulary strings
    CHECK(map[260] != map[0xef]);
    CHECK(map[261] != map[262]);  // nothing is left of either, so each keeps its text
    CHECK(map[265] == map[267]);  // ids without a token are the same
}

TEST_CASE("engram: a table that does not fit its hash is refused with numbers") {
    const auto refused = [](auto change, const char* named) {
        ModelConfig config = full_size();
        change(config);
        const auto hash = EngramHash::create(config, identity(129280));
        REQUIRE(!hash);
        CAPTURE(hash.error().message);
        CHECK(hash.error().code == Code::unsupported);
        CHECK(hash.error().message.find(named) != std::string::npos);
    };
    using C = ModelConfig;
    refused([](C& c) { c.engram_rows[1]++; }, "384016683");
    refused([](C& c) { c.engram_rows.pop_back(); }, "layer 14");
    refused([](C& c) { c.engram_vocab = 15999999 - 100000; }, "384006168");
    refused([](C& c) { c.engram_heads = 0; }, "engram_n_heads 0");
    refused([](C& c) { c.engram_ngram = 1; }, "engram_max_ngram_size 1");
    refused([](C& c) { c.engram_pad = -1; }, "engram_pad_token_id -1");
    refused([](C& c) { c.engram_pad = 129280; }, "129280");
    refused([](C& c) { c.vocab = 7; }, "vocabulary of 7");
}
