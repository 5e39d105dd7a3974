#include "engine/text/pretokenizer.h"

#include <string>
#include <utility>

#include "engine/text/tokenizer_options.h"
#include "engine/text/utf8.h"
#include "io/text.h"

namespace sluice {
namespace {

Result<SplitRegex> parse_split(const Json& node) {
    auto known = expect_members(node, {"type", "pattern", "behavior", "invert"});
    if (!known) return tl::unexpected(std::move(known).error());
    if (auto pattern = expect_members(node["pattern"], {"Regex"}); !pattern)
        return tl::unexpected(std::move(pattern).error());
    const auto behavior = node["behavior"].string();
    if (!behavior) return tl::unexpected(behavior.error());
    if (*behavior != "Isolated")
        return unsupported_option(node["behavior"], cat("'", printable(*behavior), "'"));
    auto plain = expect_false(node, {"invert"});
    if (!plain) return tl::unexpected(std::move(plain).error());
    const auto pattern = node["pattern"]["Regex"].string();
    if (!pattern) return tl::unexpected(pattern.error());
    return SplitRegex::compile(*pattern);
}

Result<void> check_byte_level(const Json& node) {
    auto known = expect_members(node, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (!known) return known;
    // Both default to true when missing.
    return expect_false(node, {"add_prefix_space", "use_regex"});
}

}  // namespace

Result<PreTokenizer> PreTokenizer::parse(const Json& description) {
    std::vector<Json> steps;
    const auto type = description["type"].string();
    if (!type) return tl::unexpected(type.error());
    if (*type == "Sequence") {
        if (auto known = expect_members(description, {"type", "pretokenizers"}); !known)
            return tl::unexpected(std::move(known).error());
        const Json list = description["pretokenizers"];
        for (size_t i = 0; i < list.size(); ++i) steps.push_back(list.at(i));
    } else {
        steps.push_back(description);
    }

    PreTokenizer result;
    bool mapped = false;
    for (const Json& step : steps) {
        const auto kind = step["type"].string();
        if (!kind) return tl::unexpected(kind.error());
        if (mapped) return unsupported_option(step, "a step after ByteLevel");
        if (*kind == "Split") {
            auto split = parse_split(step);
            if (!split) return tl::unexpected(std::move(split).error());
            result.splits_.push_back(std::move(*split));
        } else if (*kind == "ByteLevel") {
            if (auto ok = check_byte_level(step); !ok) return tl::unexpected(std::move(ok).error());
            mapped = true;
        } else {
            return unsupported_option(step, cat("type '", printable(*kind), "'"));
        }
    }
    if (!mapped) return unsupported_option(description, "no ByteLevel step");
    return result;
}

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
    SplitRegex::Scratch scratch;
    while (!text.empty()) {
        const size_t valid = utf8_prefix(text);
        if (valid > 0) split_valid(text.substr(0, valid), scratch, pieces);
        text.remove_prefix(valid);
        if (text.empty()) break;
        const size_t broken = utf8_at(text, 0).bytes;
        for (size_t i = 0; i < broken; ++i) pieces.push_back(text.substr(i, 1));
        text.remove_prefix(broken);
    }
}

void PreTokenizer::split_valid(std::string_view text, SplitRegex::Scratch& scratch,
                               std::vector<std::string_view>& pieces) const {
    std::vector<std::string_view> now{text}, next;
    for (const SplitRegex& regex : splits_) {
        next.clear();
        for (std::string_view piece : now) regex.split(piece, scratch, next);
        now.swap(next);
    }
    pieces.insert(pieces.end(), now.begin(), now.end());
}

}  // namespace sluice
