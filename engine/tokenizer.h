// Byte-level BPE from tokenizer.json, equal id by id to Hugging Face `tokenizers`.
//
// Immutable after load; any thread. encode() never produces added tokens from text: control tokens
// come only from encode_with_added() or id(). Unknown normalizer, pre-tokenizer, model type or
// option: refused by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

class Tokenizer {
 public:
    static Result<Tokenizer> load(const std::filesystem::path& tokenizer_json);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // Text to ids, O(n log n) in the longest piece; invalid UTF-8 is encoded byte by byte after
    // replacing... nothing: bytes that are not UTF-8 form pieces of their own, so decode(encode(x))
    // == x for any bytes.
    std::vector<int32_t> encode(std::string_view text) const;
    // As Hugging Face encode(add_special_tokens=False): added tokens in the text become their ids
    // (longest match).
    std::vector<int32_t> encode_with_added(std::string_view text) const;

    std::optional<int32_t> id(std::string_view added_token) const;  // of an added token
    std::string bytes(int32_t id) const;  // raw bytes of a token; an added token's content
    std::string decode(const std::vector<int32_t>& ids) const;
    std::string_view vocabulary_string(int32_t id) const;  // byte-mapped, as in the file
    bool is_added(int32_t id) const;
    int32_t size() const;  // largest id + 1

 private:
    struct Impl;
    std::unique_ptr<const Impl> impl_;
    explicit Tokenizer(std::unique_ptr<const Impl> impl);
};

// Token bytes to whole characters: holds back an incomplete tail (at most 3 bytes); invalid bytes
// become U+FFFD.
class Utf8Stream {
 public:
    std::string push(std::string_view bytes);
    std::string finish();

 private:
    std::string held_;
};

}  // namespace sluice
