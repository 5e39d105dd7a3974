// Checkpoints that are damaged, or intact with wrong contents: they are refused by name, or the
// first comparison finds them.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/model_copy.h"
#include "tests/support/models.h"
#include "tests/support/mutate.h"
#include "tests/support/paths.h"

namespace sluice {
namespace {

using model_copy::Copy;

const std::string layer0 = model_copy::shard_name(2);
const std::string layer4 = model_copy::shard_name(6);

EngineOptions options_of(const Copy& copy) {
    EngineOptions options = test::model_options("dsv41-tiny");
    options.locations = {copy.folder.string()};
    options.threads = 1;
    return options;
}

std::vector<float> logits_of(const EngineOptions& options) {
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = {0, 46, 335, 169, 578, 30, 260, 555, 368};
    auto logits = session->feed(ids);
    REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
    return {logits->begin(), logits->end()};
}

void refused(const Copy& copy, Code code, const std::vector<std::string>& parts) {
    CAPTURE(parts[0]);
    auto engine = Engine::load(options_of(copy));
    REQUIRE(!engine);
    CHECK(engine.error().code == code);
    says(engine.error().message, parts);
}

std::string good(const std::string& shard) {
    return read_file(model_copy::tiny / shard);
}

// The index without one tensor.
void forget(Copy& copy, const std::string& tensor, const std::string& shard) {
    copy.edit_index("  \"" + tensor + "\": \"" + shard + "\",\n", "");
}

// Gives every tensor whose name contains `part` another dtype tag.
std::string retagged(std::string bytes, std::string_view part, const std::string& tag) {
    Container container = Container::parse(bytes);
    for (Container::Item& item : container.items) {
        if (item.name.find(part) != std::string::npos) item.dtype = tag;
    }
    return padded(container);
}

// Of dsv4-rand-a, to be damaged.
struct V4Copy : Copy {
    V4Copy() : Copy(model_copy::v4) {}

    static std::string shard(int number) { return model_copy::shard_name(number, 10); }
    static std::string good(int number) { return read_file(model_copy::v4 / shard(number)); }
    void damage_shard(int number, const std::string& bytes) { damage(shard(number), bytes); }
    // Replaces the first `from` in config.json.
    void edit_config(const std::string& from, const std::string& to) {
        std::string text = read_file(folder / "config.json");
        const size_t at = text.find(from);
        REQUIRE_MESSAGE(at != text.npos, from);
        damage("config.json", text.replace(at, from.size(), to));
    }
    // A tensor under another name.
    void rename(int number, const std::string& from, const std::string& to) {
        damage_shard(number, mutate::renamed(read_file(folder / shard(number)), from, to));
        edit_index("\"" + from + "\"", "\"" + to + "\"");
    }
    void forget(int number, const std::string& tensor) {
        damage_shard(number, mutate::drop_clean(good(number), tensor));
        edit_index("\"" + tensor + "\": \"" + shard(number) + "\", ", "");
    }
};

}  // namespace

TEST_CASE("tags that mean the same give the same bits") {
    const std::vector<float> want = logits_of(test::model_options("dsv41-tiny"));
    Copy copy;
    copy.damage(layer0,
                retagged(retagged(good(layer0), ".scale", "U8"), "experts.5.w1.weight", "U8"));
    copy.damage(layer4, retagged(good(layer4), "w2.scale", "U8"));
    const std::vector<float> got = logits_of(options_of(copy));
    CHECK(std::memcmp(want.data(), got.data(), want.size() * 4) == 0);
}

TEST_CASE("tags that mean something else are refused by tensor and tag") {
    const struct {
        const char *part, *tag, *expected;
    } cases[] = {
        {"layers.0.ffn.experts.7.w1.scale", "F8_E4M3", "F8_E8M0 or U8"},
        {"layers.0.ffn.experts.7.w1.scale", "I8", "F8_E8M0 or U8"},
        {"layers.0.ffn.experts.7.w3.weight", "F8_E4M3", "I8 or U8"},
        {"layers.0.attn.wq_a.scale", "F8_E4M3", "F8_E8M0 or U8"},
        {"layers.0.attn.wq_a.weight", "U8", "F8_E4M3"},
        {"layers.0.attn.wq_a.weight", "F8_E5M2", "F8_E4M3"},
        {"layers.0.attn_norm.weight", "F16", "BF16"},
        {"layers.0.attn.attn_sink", "I32", "F32"},
    };
    for (const auto& c : cases) {
        Copy copy;
        copy.damage(layer0, mutate::dtype(good(layer0), c.part, c.tag));
        refused(copy, Code::unsupported,
                {c.part, c.tag, c.expected, "fetch the model as it was released"});
    }
    Copy copy;
    copy.damage(layer0, mutate::dtype(good(layer0), "attn_sink", "F9"));
    auto engine = Engine::load(options_of(copy));
    REQUIRE(!engine);
    says(engine.error().message, {"attn_sink", "F9"});
}

TEST_CASE("any quantised weight without its scale is refused") {
    for (const char* scale : {"layers.0.ffn.experts.11.w2.scale",
                              "layers.0.ffn.shared_experts.w1.scale", "layers.0.attn.wo_a.scale"}) {
        Copy copy;
        copy.damage(layer0, mutate::drop_clean(good(layer0), scale));
        auto engine = Engine::load(options_of(copy));
        REQUIRE(!engine);
        says(engine.error().message, {scale});
        forget(copy, scale, layer0);
        refused(copy, Code::not_found, {scale, "scale"});
    }
}

TEST_CASE("a missing or additional tensor is refused by name") {
    Copy copy;
    copy.damage(layer0, mutate::drop_clean(good(layer0), "layers.0.attn_norm.weight"));
    forget(copy, "layers.0.attn_norm.weight", layer0);
    refused(copy, Code::not_found, {"layers.0.attn_norm.weight"});

    Copy more;
    Container container = Container::parse(good(layer0));
    container.at("layers.0.ffn.gate.bias_vl").name = "layers.0.attn.q_head_norm";
    more.damage(layer0, padded(container));
    more.edit_index("\"layers.0.ffn.gate.bias_vl\"", "\"layers.0.attn.q_head_norm\"");
    refused(more, Code::unsupported, {"1 tensor ", "layers.0.attn.q_head_norm"});
}

TEST_CASE("shapes must be those of the config") {
    const struct {
        const char* part;
        std::vector<uint64_t> shape;
        std::vector<std::string> says;
    } cases[] = {
        {"layers.0.attn.wq_a.scale", {8, 4}, {"layers.0.attn.wq_a.scale", "[4, 8]", "[8, 4]"}},
        {"layers.0.attn.wq_a.weight", {256, 128}, {"wq_a.weight", "[128, 256]", "[256, 128]"}},
        {"layers.0.ffn.experts.3.w2.scale", {64, 8}, {"experts.3.w2.scale", "[256, 2]"}},
        {"layers.0.ffn.experts.3.w1.weight", {32, 256}, {"experts.3.w1.weight", "[64, 128]"}},
        {"layers.0.attn_norm.weight", {256, 1}, {"attn_norm.weight", "[256]", "[256, 1]"}},
    };
    for (const auto& c : cases) {
        Copy copy;
        Container container = Container::parse(good(layer0));
        container.at(c.part).shape = c.shape;
        copy.damage(layer0, padded(container));
        refused(copy, Code::corrupt, c.says);
    }
}

TEST_CASE("a config that does not match the tensors is refused") {
    const std::string text = read_file(model_copy::tiny / "config.json");
    const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"moe_intermediate_size\": 64", "\"moe_intermediate_size\": 96", "w1"},
        {"\"n_routed_experts\": 64", "\"n_routed_experts\": 65", "layers.0.ffn.gate"},
        {"\"n_routed_experts\": 64", "\"n_routed_experts\": 63", "layers.0.ffn.gate"},
        {"\"head_dim\": 64", "\"head_dim\": 32", "attn"},
        {"\"vocab_size\": 4096", "\"vocab_size\": 4128", "weight"},
        {"\"engram_compressed_vocab_size\": 3460", "\"engram_compressed_vocab_size\": 3461",
         "3461"},
    };
    for (const auto& c : cases) {
        Copy copy;
        std::string changed = text;
        const size_t at = changed.find(c.from);
        REQUIRE(at != std::string::npos);
        copy.damage("config.json", changed.replace(at, std::strlen(c.from), c.to));
        auto engine = Engine::load(options_of(copy));
        CAPTURE(c.to);
        REQUIRE(!engine);
        says(engine.error().message, {c.says});
    }
}

TEST_CASE("values that cannot be weights are refused with tensor and element") {
    const struct {
        const char* tensor;
        uint64_t at;
        std::string value;
        const char* element;
    } cases[] = {
        {"layers.0.attn.wq_a.weight", 777, "\x7f", "element 777"},
        {"layers.0.ffn.shared_experts.w2.weight", 0, "\xff", "element 0"},
        {"layers.0.attn.wo_b.scale", 9, "\xff", "element 9"},
        {"layers.0.attn_norm.weight", 20, std::string("\x80\x7f", 2), "element 10"},
        {"layers.0.ffn.gate.weight", 2, std::string("\xc0\xff", 2), "element 1"},
        {"layers.0.hc_attn_fn", 4 * 1000, std::string("\x00\x00\x80\x7f", 4), "element 1000"},
        {"layers.0.ffn.gate.bias", 4 * 63, std::string("\x00\x00\xc0\xff", 4), "element 63"},
    };
    for (const auto& c : cases) {
        Copy copy;
        copy.damage(layer0, mutate::patched(good(layer0), c.tensor, c.at, c.value));
        refused(copy, Code::corrupt, {c.tensor, c.element});
    }
}

TEST_CASE("unusual positions of tensors in a file change nothing") {
    const std::vector<float> want = logits_of(test::model_options("dsv41-tiny"));
    for (size_t k : {1, 3, 6}) {
        Copy copy;
        copy.damage(layer0, mutate::unpadded(good(layer0), k));
        copy.damage(layer4, mutate::unpadded(good(layer4), k + 1));
        const std::string head = model_copy::shard_name(10);
        copy.damage(head, mutate::unpadded(good(head), k));
        const std::vector<float> got = logits_of(options_of(copy));
        CHECK(std::memcmp(want.data(), got.data(), want.size() * 4) == 0);
    }
    // Scales before weights, experts from last to first.
    Copy copy;
    copy.damage(layer4, mutate::reorder(good(layer4), [](const std::string& name) {
                    return std::pair(name.ends_with("weight"), -static_cast<int>(name.size()));
                }));
    const std::vector<float> got = logits_of(options_of(copy));
    CHECK(std::memcmp(want.data(), got.data(), want.size() * 4) == 0);
}

TEST_CASE("swapped scales of two experts load, and comparing with a trace finds them") {
    Copy copy;
    for (int shard = 2; shard <= 9; ++shard) {
        Container container = Container::parse(good(model_copy::shard_name(shard)));
        std::vector<Container::Item*> scales;
        for (Container::Item& item : container.items) {
            if (item.name.ends_with("w2.scale") && item.name.find(".experts.") != std::string::npos)
                scales.push_back(&item);
        }
        for (size_t i = 0; i + 1 < scales.size(); i += 2) {
            std::swap(scales[i]->begin, scales[i + 1]->begin);
            std::swap(scales[i]->end, scales[i + 1]->end);
        }
        copy.damage(model_copy::shard_name(shard), padded(container));
    }
    auto engine = test::load_engine(options_of(copy));
    auto session = test::open_session(*engine);
    const auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-03.json");
    REQUIRE(trace);
    const auto report = compare(*engine, *session, *trace);
    REQUIRE(report);
    CHECK(!report->pass);
    CHECK(!report->failure.empty());
}

TEST_CASE("a scale byte of 255 in an Engram row ends with a numerical error, if it is used") {
    Copy copy;
    const std::string shard = model_copy::shard_name(11);
    std::string bytes = good(shard);
    const Container container = Container::parse(bytes);
    for (const Container::Item& item : container.items) {
        if (!item.name.ends_with("engram.embed.scale")) continue;
        const uint64_t begin = 8 + header_length(bytes) + item.begin;
        bytes.replace(begin, item.end - item.begin, item.end - item.begin, '\xff');
    }
    copy.damage(shard, bytes);
    auto engine = test::load_engine(options_of(copy));
    auto session = test::open_session(*engine);
    const std::vector<int32_t> ids = {0, 46, 335};
    const auto failed = session->feed(ids);
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::numerical);
}

TEST_CASE("an expert whose read fails is named once, with its layer") {
    Copy copy;
    copy.damage(layer4, good(layer4));  // a real file instead of a link
    auto engine = test::load_engine(options_of(copy));
    auto session = test::open_session(*engine);
    std::filesystem::resize_file(copy / layer4, 8 + header_length(good(layer4)));
    const std::vector<int32_t> ids = {0, 46, 335};
    const auto failed = session->feed(ids);
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::corrupt);
    says(failed.error().message, {"layer 4, expert ", layer4});
    CHECK(failed.error().message.starts_with("layer 4, expert "));
}

TEST_CASE("deepseek-v4: a table of token ids with wrong experts is refused by token") {
    const std::string table = "layers.1.ffn.gate.tid2eid";  // [560][3]
    const std::string bytes = V4Copy::good(3);
    const auto entry = [](uint64_t token, uint64_t place) { return 8 * (3 * token + place); };
    const struct {
        uint64_t at;
        int64_t expert;
        const char* says;
    } cases[] = {
        {entry(5, 1), 12, "expert 12 does not exist, listed for token 5"},
        {entry(0, 0), -1, "expert -1 does not exist, listed for token 0"},
        {entry(559, 2), int64_t{1} << 32, "expert 4294967296 does not exist, listed for token 559"},
    };
    for (const auto& c : cases) {
        V4Copy copy;
        const auto value = little_endian(static_cast<uint64_t>(c.expert));
        copy.damage_shard(3, mutate::patched(bytes, table, c.at, value));
        refused(copy, Code::corrupt, {"model-00003-of-00010.safetensors: tensor", table, c.says});
    }
    V4Copy twice;
    const uint64_t first =
        8 + header_length(bytes) + Container::parse(bytes).at(table).begin + entry(77, 0);
    const std::string expert = bytes.substr(first, 8);
    twice.damage_shard(3, mutate::patched(bytes, table, entry(77, 2), expert));
    refused(twice, Code::corrupt, {table, "is listed twice for token 77"});

    V4Copy narrow;  // as I32 of the same bytes
    Container container = Container::parse(bytes);
    container.at(table).dtype = "I32";
    container.at(table).shape = {560, 6};
    narrow.damage_shard(3, padded(container));
    refused(narrow, Code::unsupported, {table, "I32", "I64"});
}

TEST_CASE("deepseek-v4: a draft head that is not what config and names say is refused") {
    V4Copy stages;
    stages.edit_config("  4,\n  0,\n  0\n", "  4,\n  0\n");
    refused(stages, Code::corrupt, {"compress_ratios", "1 draft stages", "mtp.* tensors of 2"});
    V4Copy none;
    none.edit_config("  4,\n  0,\n  0\n", "  4\n");
    refused(none, Code::corrupt, {"compress_ratios", "0 draft stages", "mtp.* tensors of 2"});

    const std::string projection = "mtp.0.main_proj.weight", entry = "mtp.0.e_proj.weight";
    V4Copy both;
    both.rename(9, projection, entry);
    refused(both, Code::unsupported, {"mtp.*.e_proj", "mtp.*.markov_head", "both"});
    V4Copy neither;
    for (const char* part : {"1", "2"}) {
        const std::string name = std::string("_w") + part + ".weight";
        neither.rename(10, "mtp.1.markov_head.markov" + name, "mtp.1.other" + name);
    }
    refused(neither, Code::unsupported, {"neither", "mtp.*.e_proj", "mtp.*.markov_head"});
    neither.rename(9, projection, entry);
    refused(neither, Code::unsupported, {"an MTP block of 2 stages"});
}

TEST_CASE("deepseek-v4: tensors that are missing or of another model's shape are refused") {
    for (const char* tensor : {"hc_head_fn", "hc_head_base", "hc_head_scale", "norm.weight"}) {
        V4Copy copy;
        copy.forget(8, tensor);
        refused(copy, Code::not_found, {tensor});
    }
    for (const char* tensor : {"layers.1.attn.compressor.ape", "layers.1.ffn.gate.tid2eid",
                               "layers.1.attn.indexer.compressor.wgate.weight"}) {
        V4Copy copy;
        copy.forget(3, tensor);
        refused(copy, Code::not_found, {tensor});
    }
    // V4.1's scales: one for 32 x 32 values.
    V4Copy tiles;
    const std::string scale = "layers.0.attn.wq_a.scale";  // of [128, 256]
    tiles.damage_shard(2, mutate::resized(V4Copy::good(2), scale, {4, 8}, 32, '\x7f'));
    refused(tiles, Code::corrupt, {scale, "[1, 2]", "[4, 8]"});

    const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"num_hash_layers\": 2", "\"num_hash_layers\": 1", "layers.1.ffn.gate.bias"},
        {"\"num_hash_layers\": 2", "\"num_hash_layers\": 3", "layers.2.ffn.gate.tid2eid"},
        {"  0,\n  4,\n", "  4,\n  4,\n", "layers.0.attn.compressor"},
        {"  4,\n  12,\n", "  12,\n  12,\n", "layers.1.attn.compressor.ape"},
        {"  4,\n  12,\n", "  0,\n  12,\n", "layers.1.attn"},
        {"  12,\n", "  16,\n", "layers.2.attn.compressor.ape"},
        {"\"hc_mult\": 4", "\"hc_mult\": 2", "hc_"},
    };
    for (const auto& c : cases) {
        V4Copy copy;
        copy.edit_config(c.from, c.to);
        auto engine = Engine::load(options_of(copy));
        CAPTURE(c.to);
        REQUIRE(!engine);
        says(engine.error().message, {c.says});
    }
}

}  // namespace sluice
