// Source of tokenizer.h: Tokenizer::load() and parse(), which read tokenizer.json.

#include <memory>
#include <string>
#include <utility>

#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer_impl.h"
#include "engine/text/tokenizer_options.h"
#include "engine/text/utf8.h"
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t file_bytes_max = 256u << 20;
constexpr int64_t id_max = (1 << 24) - 1;

using Ids = std::unordered_map<std::string, int32_t>;

tl::unexpected<Error> corrupt(const Json& node, std::string_view what) {
    return fail(Code::corrupt, cat(node.path(), ": ", what));
}

Result<int32_t> token_id(const Json& node) {
    const auto id = node.integer();
    if (!id) return tl::unexpected(id.error());
    if (*id < 0 || *id > id_max) return corrupt(node, cat("token id ", *id, " is out of range"));
    return static_cast<int32_t>(*id);
}

}  // namespace

class TokenizerFile {
 public:
    explicit TokenizerFile(Json root) : root_(std::move(root)), model_(root_["model"]) {}

    Result<Tokenizer> read() {
        for (auto step : {&TokenizerFile::check_root, &TokenizerFile::check_model,
                          &TokenizerFile::read_pretokenizer, &TokenizerFile::read_vocabulary,
                          &TokenizerFile::read_added_tokens, &TokenizerFile::read_bytes,
                          &TokenizerFile::read_merges, &TokenizerFile::read_ignore_merges}) {
            if (auto done = (this->*step)(); !done) return tl::unexpected(std::move(done).error());
        }
        return Tokenizer(std::move(impl_));
    }

 private:
    using Token = Tokenizer::Impl::Token;

    Result<void> check_root();
    Result<void> check_model();
    Result<void> read_pretokenizer();
    Result<void> read_vocabulary();
    Result<void> read_added_tokens();
    Result<void> read_added_token(const Json& node);
    Result<void> read_bytes();
    Result<void> read_merges();
    Result<void> read_merge(const Json& node, std::string& left, std::string& right);
    Result<void> read_ignore_merges();

    Token& token(int32_t id) {
        const auto at = static_cast<size_t>(id);
        if (at >= impl_->tokens.size()) impl_->tokens.resize(at + 1);
        return impl_->tokens[at];
    }

    Json root_, model_;
    std::unique_ptr<Tokenizer::Impl> impl_ = std::make_unique<Tokenizer::Impl>();
    Ids vocabulary_;
};

// A normalizer would change the text, truncation and padding would change the ids, and another
// decoder would change the answer. A post_processor is ignored: it adds special tokens, which
// encode() never does, or moves offsets.
Result<void> TokenizerFile::check_root() {
    auto known =
        expect_members(root_, {"version", "truncation", "padding", "added_tokens", "normalizer",
                               "pre_tokenizer", "post_processor", "decoder", "model"});
    if (!known) return known;
    for (std::string_view name : {"truncation", "padding"}) {
        if (!root_[name].is_null())
            return unsupported_option(root_[name], "a value other than null");
    }
    const Json normalizer = root_["normalizer"];
    if (!normalizer.is_null()) {
        const auto type = normalizer["type"].string();
        if (!type) return tl::unexpected(type.error());
        if (*type != "Sequence" || normalizer["normalizers"].size() > 0)
            return unsupported_option(normalizer, cat("type '", printable(*type), "'"));
    }
    const auto decoder = root_["decoder"]["type"].string();
    if (!decoder) return tl::unexpected(decoder.error());
    if (*decoder != "ByteLevel")
        return unsupported_option(root_["decoder"], cat("type '", printable(*decoder), "'"));
    return {};
}

Result<void> TokenizerFile::check_model() {
    const auto type = model_["type"].string();
    if (!type) return tl::unexpected(type.error());
    if (*type != "BPE") return unsupported_option(model_, cat("type '", printable(*type), "'"));
    auto known = expect_members(
        model_, {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                 "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (!known) return known;
    for (std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        const Json value = model_[name];
        if (value.is_null()) continue;
        const auto text = value.string();
        if (!text) return tl::unexpected(text.error());
        if (!text->empty()) return unsupported_option(value, "a value other than null");
    }
    if (!model_["dropout"].is_null()) {
        const auto dropout = model_["dropout"].number();
        if (!dropout) return tl::unexpected(dropout.error());
        if (*dropout != 0) return unsupported_option(model_["dropout"], "a value other than null");
    }
    if (model_.has("byte_fallback")) return expect_false(model_, {"byte_fallback"});
    return {};
}

Result<void> TokenizerFile::read_pretokenizer() {
    auto parsed = PreTokenizer::parse(root_["pre_tokenizer"]);
    if (!parsed) return tl::unexpected(std::move(parsed).error());
    impl_->pretokenizer = std::move(*parsed);
    return {};
}

Result<void> TokenizerFile::read_vocabulary() {
    const Json vocabulary = model_["vocab"];
    if (!vocabulary.is_object()) return corrupt(vocabulary, "expected an object");
    vocabulary_.reserve(vocabulary.size());
    Result<void> result;
    vocabulary.each_member([&](std::string_view text, const Json& value) {
        const auto id = token_id(value);
        if (!id) {
            result = tl::unexpected(id.error());
            return false;
        }
        Token& slot = token(*id);
        if (slot.present) {
            result = corrupt(value, cat("token id ", *id, " is also '", printable(slot.text), "'"));
            return false;
        }
        slot = {std::string(text), bytes_of_vocabulary(text).value_or(std::string(text)), true,
                false};
        vocabulary_.emplace(text, *id);
        return true;
    });
    return result;
}

Result<void> TokenizerFile::read_added_tokens() {
    const Json list = root_["added_tokens"];
    if (!list.is_array()) return corrupt(list, "expected an array");
    for (size_t i = 0; i < list.size(); ++i) {
        if (auto done = read_added_token(list.at(i)); !done) return done;
    }
    return {};
}

Result<void> TokenizerFile::read_added_token(const Json& node) {
    auto known = expect_members(
        node, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    if (!known) return known;
    auto plain = expect_false(node, {"single_word", "lstrip", "rstrip"});
    if (!plain) return plain;
    const auto content = node["content"].string();
    if (!content) return tl::unexpected(content.error());
    if (content->empty()) return corrupt(node, "an added token without content");
    const auto id = token_id(node["id"]);
    if (!id) return tl::unexpected(id.error());
    const auto normalized = node["normalized"].boolean();
    if (!normalized) return tl::unexpected(normalized.error());

    // An added token that is in the vocabulary too must have the same id there. With two ids for
    // one text, or two texts for one id, it would be unclear which one a prompt means.
    const auto ordinary = vocabulary_.find(*content);
    if (ordinary != vocabulary_.end() && ordinary->second != *id)
        return corrupt(node, cat("'", printable(*content), "' has id ", *id, " here and ",
                                 ordinary->second, " in the vocabulary"));
    Token& slot = token(*id);
    if (slot.added || (slot.present && slot.text != *content))
        return corrupt(node, cat("token id ", *id, " is also '", printable(slot.text), "'"));
    if (!impl_->added.emplace(*content, *id).second)
        return corrupt(node, cat("'", printable(*content), "' appears twice"));
    slot = {*content, *content, true, true};
    (*normalized ? impl_->second : impl_->first).add(*content, *id);
    return {};
}

// Every byte needs an ordinary token, so that any text can be encoded and unk_token is never used.
Result<void> TokenizerFile::read_bytes() {
    for (int byte = 0; byte < 256; ++byte) {
        std::string text;
        append_utf8(text, byte_character(static_cast<uint8_t>(byte)));
        const auto found = vocabulary_.find(text);
        if (found == vocabulary_.end())
            return unsupported_option(model_["vocab"], cat("no token for byte ", byte));
        if (token(found->second).added)
            return unsupported_option(model_["vocab"], cat("an added token for byte ", byte));
        impl_->bpe.set_byte(static_cast<uint8_t>(byte), found->second);
    }
    return {};
}

Result<void> TokenizerFile::read_merges() {
    const Json merges = model_["merges"];
    if (!merges.is_array()) return corrupt(merges, "expected an array");
    std::string left, right;
    for (size_t i = 0; i < merges.size(); ++i) {
        const Json node = merges.at(i);
        if (auto done = read_merge(node, left, right); !done) return done;
        int32_t ids[3];
        const std::string texts[] = {left, right, left + right};
        for (size_t k = 0; k < 3; ++k) {
            const auto found = vocabulary_.find(texts[k]);
            if (found == vocabulary_.end())
                return corrupt(node, cat("'", printable(texts[k]), "' is not in the vocabulary"));
            ids[k] = found->second;
        }
        if (token(ids[2]).added)
            return unsupported_option(
                node, cat("a merge into the added token '", printable(texts[2]), "'"));
        impl_->bpe.add_merge(ids[0], ids[1], ids[2]);
    }
    return {};
}

// "left right", or ["left", "right"] as newer versions write it.
Result<void> TokenizerFile::read_merge(const Json& node, std::string& left, std::string& right) {
    if (node.is_array()) {
        if (node.size() != 2) return corrupt(node, "expected two strings");
        auto first = node.at(0).string(), second = node.at(1).string();
        if (!first) return tl::unexpected(std::move(first).error());
        if (!second) return tl::unexpected(std::move(second).error());
        left = std::move(*first), right = std::move(*second);
        return {};
    }
    const auto both = node.string();
    if (!both) return tl::unexpected(both.error());
    const size_t space = both->find(' ');
    if (space == std::string::npos || both->find(' ', space + 1) != std::string::npos)
        return corrupt(node,
                       cat("'", printable(*both), "' is not two parts separated by one space"));
    left = both->substr(0, space), right = both->substr(space + 1);
    return {};
}

Result<void> TokenizerFile::read_ignore_merges() {
    if (!model_.has("ignore_merges")) return {};
    const auto ignore = model_["ignore_merges"].boolean();
    if (!ignore) return tl::unexpected(ignore.error());
    if (!*ignore) return {};
    for (const auto& [text, id] : vocabulary_) {
        if (token(id).added) continue;
        if (auto bytes = bytes_of_vocabulary(text)) impl_->whole_pieces.emplace(*bytes, id);
    }
    return {};
}

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
    auto root = Json::parse(json);
    if (!root) return tl::unexpected(std::move(root).error());
    if (!root->is_object()) return fail(Code::corrupt, "expected an object");
    return TokenizerFile(std::move(*root)).read();
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
    const auto text = read_text(tokenizer_json, file_bytes_max);
    if (!text) return tl::unexpected(text.error());
    auto tokenizer = parse(*text);
    if (!tokenizer) {
        return within(printable(tokenizer_json.string()), std::move(tokenizer).error());
    }
    tokenizer->source_ = tokenizer_json.string();
    return tokenizer;
}

}  // namespace sluice
