#include "io/checkpoint/safetensors.h"

#include <doctest/doctest.h>

#include <chrono>

#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/mutate.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

const std::string models = test::models_folder;
const std::string tiny_shard = models + "/dsv41-tiny/model-00002-of-00012.safetensors";

Result<SafetensorsHeader> header_of(const std::string& bytes) {
    TempFolder folder;
    const auto path = folder / "shard.safetensors";
    write_file(path, bytes);
    auto file = File::open(path, Access::buffered);
    REQUIRE(file);
    return read_safetensors_header(*file);
}

// The message of a refusal, which must name the file and be one line.
std::string refusal(const std::string& bytes, Code code = Code::corrupt) {
    const auto header = header_of(bytes);
    if (header) return "accepted";
    CHECK(header.error().code == code);
    CHECK(header.error().message.find("shard.safetensors") != std::string::npos);
    CHECK(header.error().message.find('\n') == std::string::npos);
    return header.error().message;
}

void says(const std::string& message, const char* part) {
    sluice::says(message, {part});
}

// A file with this header and `data` zero bytes.
std::string file_of(const std::string& header, size_t data) {
    return assemble(header, std::string(data, '\0'));
}

}  // namespace

TEST_CASE("safetensors: entries match the file, sorted by offset, with absolute offsets") {
    const std::string good = read_file(tiny_shard);
    const auto header = header_of(good);
    REQUIRE(header);
    Container want = Container::parse(good);
    std::sort(want.items.begin(), want.items.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
    REQUIRE(header->tensors.size() == want.items.size());
    CHECK(header->data_begin == 8 + header_length(good));
    for (size_t i = 0; i < want.items.size(); ++i) {
        const TensorEntry& entry = header->tensors[i];
        CHECK(entry.name == want.items[i].name);
        CHECK(std::string(dtype_name(entry.dtype)) == want.items[i].dtype);
        CHECK(entry.shape == want.items[i].shape);
        CHECK(entry.offset == header->data_begin + want.items[i].begin);
        CHECK(entry.bytes == want.items[i].end - want.items[i].begin);
    }
}

TEST_CASE("safetensors: any header length is valid, and the data begins right after it") {
    const std::string good = read_file(tiny_shard);
    for (size_t k = 1; k <= 8; ++k) {
        CAPTURE(k);
        const std::string bytes = mutate::unpadded(good, k);
        const auto header = header_of(bytes);
        REQUIRE(header);
        CHECK(header->data_begin == 8 + header_length(bytes));
        CHECK(header->tensors.front().offset == header->data_begin);
        const TensorEntry& last = header->tensors.back();
        CHECK(last.offset + last.bytes == bytes.size());
    }
}

TEST_CASE("safetensors: every kind of damage has a message of its own") {
    const std::string good = read_file(tiny_shard);
    says(refusal(mutate::cut(good, 1)), "1 bytes are missing");
    says(refusal(mutate::cut(good, 4096)), "4096 bytes are missing");
    says(refusal(mutate::cut_in_head(good)), "the header should be 41448 bytes long");
    says(refusal(mutate::only4(good)), "only 4 bytes");
    says(refusal(""), "the file is empty");
    says(refusal(mutate::gap(good)), "data_offsets");
    says(refusal(mutate::tail(good)), "has 4096 extra bytes after its last tensor");
    says(refusal(mutate::overlap(good)), "overlaps \"layers.0.attn.attn_sink\"");
    says(refusal(mutate::reverse(good)), "before they begin");
    says(refusal(mutate::shape_lie(good)), "its shape make 64 bytes, but its data_offsets 32");
    says(refusal(mutate::dtype(good, "attn.wkv.scale", "F9"), Code::unsupported),
         "tensor \"layers.0.attn.wkv.scale\": unknown dtype \"F9\" (known: ");
}

TEST_CASE("safetensors: wrong header lengths are noticed before anything is allocated") {
    const std::string good = read_file(tiny_shard);
    const auto start = std::chrono::steady_clock::now();
    for (const uint64_t length :
         {~uint64_t{0}, ~uint64_t{0} - 7, uint64_t{1} << 63, uint64_t{0x7fffffff},
          uint64_t{99'999'999}, uint64_t{good.size() - 7}}) {
        CAPTURE(length);
        says(refusal(mutate::length(good, length)), "the header should be");
    }
    for (const uint64_t length : {0, 1}) {
        CAPTURE(length);
        says(refusal(mutate::length(good, length)), "too short for {}");
    }
    says(refusal(mutate::length(good, 3)), "not valid JSON");
    says(refusal(mutate::length(good, header_length(good) - 8)), "not valid JSON");
    says(refusal(mutate::length(good, header_length(good) + 8)), "not valid JSON");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE(
    "safetensors: a header above the format's limit is refused, even if the file could hold it") {
    TempFolder folder;
    const auto path = folder / "big.safetensors";
    write_file(path, little_endian(100'000'001) + "{");
    std::filesystem::resize_file(path, 200'000'000);  // sparse
    auto file = File::open(path, Access::buffered);
    REQUIRE(file);
    const auto header = read_safetensors_header(*file);
    REQUIRE(!header);
    says(header.error().message, "the format allows at most 100000000");
}

TEST_CASE("safetensors: files of another kind are named as what they are") {
    says(refusal(mutate::lfs_pointer()), "a git-lfs pointer for a file of 5 GiB");
    says(refusal(mutate::lfs_pointer()), "git lfs pull");
    says(refusal(mutate::html()), "an HTML page");
    says(refusal("\r\n  <HTML lang=en>" + std::string(600, 'x')), "an HTML page");
    says(refusal("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"), "HTML");
    says(refusal("PK\x03\x04" + std::string(100, 'x')), "ZIP");
    says(refusal("GGUF" + little_endian(3) + std::string(100, '\0')), "GGUF");
    says(refusal("\x1f\x8b\x08" + std::string(13, '\0') + std::string(100'000, 'x')), "gzip");
    says(refusal(std::string(1 << 20, '\0')), "filled with zeros");
    says(refusal(R"({"error":"Repository not found"})"), "JSON text");
}

TEST_CASE("safetensors: header documents of the wrong structure") {
    const auto header = [](const std::string& text, size_t data = 0) {
        return refusal(file_of(text, data));
    };
    says(header("[]"), "not a JSON object");
    says(header("{}   x"), "not valid JSON");
    says(header("{\"a\":1}"), "tensor \"a\": unexpected number");
    says(header("{\"a\":null}"), "unexpected null");
    says(header("{\"a\":[]}"), "unexpected array");
    says(header("{\"a\":{}}"), "dtype is missing");
    says(header(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "data_offsets is missing");
    says(header(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), "shape is missing");
    says(header(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
         "dtype appears twice");
    says(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":[]}})", 1),
         "unknown field \"x\"");
    says(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1), "two numbers");
    says(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1), "more than two");
    says(header(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
         "unexpected negative number");
    says(header(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1),
         "not a 64-bit integer");
    says(header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1e0]}})", 1),
         "not a 64-bit integer");
    says(header(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})", 1),
         "not a 64-bit integer");
    says(header(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1), "array");
    says(header(R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", 1), "number");
    says(header(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1), "without a name");
    says(header(R"({"__metadata__":{"a":1}})"), "unexpected number");
    says(header(R"({"__metadata__":{"a":{}}})"), "unexpected object");
    says(header(R"({"__metadata__":{},"__metadata__":{}})"), "twice");
    says(header("{\"a\xff\":{}}"), "not valid JSON");
    says(header("{\"a\":" + std::string(100'000, '[')), "array");
    says(header("{\"a\":" + std::string(100'000, '{')), "not valid JSON");
}

TEST_CASE("safetensors: overflow, duplicate names, holes") {
    const auto header = [](const std::string& text, size_t data) {
        return refusal(file_of(text, data));
    };
    says(header(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
         "larger than any file");
    says(header(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
         "larger than any file");
    // The product wraps to 4 exactly.
    says(header(R"({"a":{"dtype":"U8","shape":[9223372036854775810,2],"data_offsets":[0,4]}})", 4),
         "larger than any file");
    says(header(R"({"a":{"dtype":"U8","shape":[18446744073709551615],)"
                R"("data_offsets":[0,18446744073709551615]}})",
                4),
         "cut short");
    says(header(R"({"a":{"dtype":"U8","shape":[18446744073709551615],)"
                R"("data_offsets":[0,18446744073709551615]},)"
                R"("b":{"dtype":"U8","shape":[0],)"
                R"("data_offsets":[18446744073709551615,18446744073709551615]}})",
                4),
         "cut short");
    says(header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                4),
         "tensor \"a\" is declared twice");
    says(header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                4),
         "tensor \"b\" leaves a hole after \"a\"");
    says(header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
                4),
         "tensor \"b\" overlaps \"a\"");
    says(header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", 4),
         "tensor \"a\" leaves a hole after the header");
    std::string deep = R"({"a":{"dtype":"U8","shape":[)";
    for (int i = 0; i < 70; ++i) deep += i ? ",1" : "1";
    says(header(deep + R"(],"data_offsets":[0,1]}})", 1), "more than 64 dimensions");
}

TEST_CASE("safetensors: rare but valid headers") {
    // Scalar, empty tensors at the same offset, metadata between, a name in CJK, no tensor at all.
    const auto header = header_of(
        file_of(R"({"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                R"("__metadata__":{"k":"v"},)"
                R"("空":{"dtype":"BF16","shape":[0,9],"data_offsets":[0,0]},)"
                R"("z":{"dtype":"I64","shape":[18446744073709551615,0,3],"data_offsets":[4,4]}})",
                4));
    REQUIRE(header);
    REQUIRE(header->tensors.size() == 3);
    CHECK(header->tensors[0].name == "空");
    CHECK(header->tensors[1].name == "b");
    CHECK(header->tensors[2].bytes == 0);
    CHECK(header_of(file_of("{}", 0))->tensors.empty());
}

TEST_CASE("safetensors: a control character in a name does not reach the message") {
    const std::string message = refusal(
        file_of("{\"a\\u001b[2Jb\":{\"dtype\":\"F9\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1),
        Code::unsupported);
    CHECK(message.find('\x1b') == std::string::npos);
}

TEST_CASE("safetensors: every dtype has its name and size") {
    CHECK(std::string(dtype_name(DType::f8_e8m0)) == "F8_E8M0");
    CHECK(std::string(dtype_name(DType::f8_e5m2)) == "F8_E5M2");
    CHECK(std::string(dtype_name(DType::boolean)) == "BOOL");
    CHECK(dtype_size(DType::f8_e4m3) == 1);
    CHECK(dtype_size(DType::bf16) == 2);
    CHECK(dtype_size(DType::f32) == 4);
    CHECK(dtype_size(DType::i64) == 8);
}

TEST_CASE("safetensors: a shard read with O_DIRECT has the same header") {
    auto direct = File::open(tiny_shard, Access::direct);
    auto buffered = File::open(tiny_shard, Access::buffered);
    REQUIRE(direct);
    REQUIRE(buffered);
    const auto a = read_safetensors_header(*direct), b = read_safetensors_header(*buffered);
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->data_begin == b->data_begin);
    CHECK(a->tensors.size() == b->tensors.size());
}
