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
    // The same from the file's text.
    static Result<Tokenizer> parse(std::string_view json);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // Text to ids, O(n log n) in the longest piece. Bytes that are not UTF-8 are encoded one by
    // one and split the text around them, so decode(encode(x)) == x for any bytes. Requires less
    // than 2 GiB.
    std::vector<int32_t> encode(std::string_view text) const;
    // As Hugging Face encode(add_special_tokens=False): added tokens in the text become their ids
    // (leftmost, then longest match).
    std::vector<int32_t> encode_with_added(std::string_view text) const;

    std::optional<int32_t> id(std::string_view added_token) const;  // of an added token
    // Raw bytes of a token; an added token's content; nothing for an id without a token.
    std::string_view bytes(int32_t id) const;
    std::string decode(const std::vector<int32_t>& ids) const;  // bytes of each, joined
    std::string_view vocabulary_string(int32_t id) const;       // byte-mapped, as in the file
    bool is_added(int32_t id) const;
    int32_t size() const;  // largest id + 1
    // For messages: the path it was loaded from.
    const std::string& source() const { return source_; }

 private:
    struct Impl;
    std::unique_ptr<const Impl> impl_;
    std::string source_ = "tokenizer.json";
    explicit Tokenizer(std::unique_ptr<const Impl> impl);
    friend class TokenizerFile;
};

// Token bytes to whole characters: holds back an incomplete tail (at most 3 bytes); each longest
// run of bytes that began like a character but is none becomes one U+FFFD. The output does not
// depend on how the bytes were cut.
class Utf8Stream {
 public:
    std::string push(std::string_view bytes);
    std::string finish();  // U+FFFD if a tail is held; ready for another text

 private:
    std::string held_;
};

}  // namespace sluice
