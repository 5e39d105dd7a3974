// Byte-level BPE from tokenizer.json, with exactly the ids of Hugging Face `tokenizers`
// (deepseek-v41.md section 6.1).
//
// Immutable after load; any thread. encode() never produces added tokens from text: control tokens
// come only from encode_with_added() or id(). An unknown normalizer, pre-tokenizer, model type or
// option is refused by name.
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

class TokenIndex;

class Tokenizer {
 public:
    static Result<Tokenizer> load(const std::filesystem::path& tokenizer_json);
    // The same, from the text of the file.
    static Result<Tokenizer> parse(std::string_view json);
    Tokenizer(Tokenizer&&) noexcept;
    Tokenizer& operator=(Tokenizer&&) noexcept;
    ~Tokenizer();

    // Text to ids, O(n log n) in the longest piece. Bytes that are not UTF-8 are encoded one by one
    // and split the text around them, so decode(encode(x)) == x for any bytes. Requires less than
    // 2 GiB.
    std::vector<int32_t> encode(std::string_view text) const;
    // Like encode(add_special_tokens=False) of Hugging Face: added tokens in the text become their
    // ids (leftmost, then longest match).
    std::vector<int32_t> encode_with_added(std::string_view text) const;
    // Where encode_with_added() finds added tokens in the text, and the stretches between them, in
    // order; none is empty.
    struct Stretch {
        std::string_view text;
        int32_t id;  // -1: ordinary text
    };
    std::vector<Stretch> split_at_added(std::string_view text) const;

    std::optional<int32_t> id(std::string_view added_token) const;
    // Raw bytes of an ordinary token, the content of an added one, empty for an id without a token.
    std::string_view bytes(int32_t id) const;
    std::string decode(const std::vector<int32_t>& ids) const;  // the bytes of all, joined
    std::string_view vocabulary_string(int32_t id) const;       // byte-mapped, as in the file
    bool is_added(int32_t id) const;
    int32_t size() const;  // largest id + 1
    // Its ordinary tokens by their bytes; made at the first call.
    const TokenIndex& index() const;
    // The path it was loaded from, for messages.
    const std::string& source() const { return source_; }

 private:
    struct Impl;
    std::unique_ptr<const Impl> impl_;
    std::string source_ = "tokenizer.json";
    explicit Tokenizer(std::unique_ptr<const Impl> impl);
    friend class TokenizerFile;
};

}  // namespace sluice
