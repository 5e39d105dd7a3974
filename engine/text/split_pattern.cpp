#include "engine/text/split_pattern.h"

#include "engine/text/utf8.h"
#include "io/text.h"

namespace sluice {
namespace {

// Unicode White_Space, as the inside of a class.
constexpr std::string_view spaces = R"(\t-\r\x{85}\p{Z})";
constexpr std::string_view letters_and_digits =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

// Walks the pattern once, copies what both engines read alike and refuses the rest.
class Translator {
 public:
    explicit Translator(std::string_view pattern) : pattern_(pattern) {}

    Result<std::string> run() {
        while (at_ < pattern_.size()) {
            const char c = pattern_[at_];
            Result<void> step;
            if (c == '\\')
                step = escape(false);
            else if (c == '[')
                step = character_class();
            else if (c == '(')
                step = group();
            else if (c == '^' || c == '$' || c == '.')
                step = refuse("construct", 1);
            else if (c == '{')
                step = counted();
            else if (starts_with("++") || starts_with("*+") || starts_with("?+"))
                step = refuse("possessive quantifier", 2);
            else
                copy(1);
            if (!step) return tl::unexpected(std::move(step).error());
        }
        return std::move(out_);
    }

 private:
    bool starts_with(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
    void copy(size_t bytes) {
        out_ += pattern_.substr(at_, bytes);
        at_ += bytes;
    }
    tl::unexpected<Error> refuse(std::string_view what, size_t bytes) const {
        return fail(Code::unsupported,
                    cat("split pattern '", printable(pattern_), "': ", what, " '",
                        printable(pattern_.substr(at_, bytes)), "' is not supported"));
    }

    Result<void> escape(bool in_class) {
        if (at_ + 1 >= pattern_.size()) return refuse("escape", 1);
        const char c = pattern_[at_ + 1];
        if (c == 's' || c == 'S') {
            if (in_class && c == 'S') return refuse("escape in a class", 2);
            at_ += 2;
            if (in_class)
                out_ += spaces;
            else
                out_ += cat(c == 's' ? "[" : "[^", spaces, "]");
            return {};
        }
        if (c == 'p' || c == 'P') return property();
        const bool known = std::string_view("rntdD").find(c) != std::string_view::npos;
        const bool plain = static_cast<unsigned char>(c) >= 0x80 ||
                           letters_and_digits.find(c) != std::string_view::npos;
        if (plain && !known) return refuse("escape", 2);
        copy(2);
        return {};
    }

    Result<void> property() {
        // General categories only: a script name means Script to one engine and Script_Extensions
        // to the other.
        const size_t end = pattern_.find('}', at_);
        if (end == std::string_view::npos) return refuse("escape", 2);
        const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
        const bool category =
            (name.size() == 2 || (name.size() == 3 && name[2] >= 'a' && name[2] <= 'z')) &&
            name[0] == '{' && std::string_view("CLMNPSZ").find(name[1]) != std::string_view::npos;
        if (!category) return refuse("property", end + 1 - at_);
        copy(end + 1 - at_);
        return {};
    }

    Result<void> character_class() {
        copy(1);
        if (starts_with("^")) copy(1);
        if (starts_with("]")) return refuse("class beginning", 1);
        while (at_ < pattern_.size() && pattern_[at_] != ']') {
            if (pattern_[at_] == '[') return refuse("nested class", 2);
            if (starts_with("&&")) return refuse("class operation", 2);
            if (pattern_[at_] == '\\') {
                auto step = escape(true);
                if (!step) return step;
            } else {
                copy(1);
            }
        }
        if (at_ >= pattern_.size()) return refuse("unclosed class", 0);
        copy(1);
        return {};
    }

    Result<void> group() {
        if (!starts_with("(?")) {
            copy(1);
            return {};
        }
        for (std::string_view known : {"(?:", "(?=", "(?!"}) {
            if (!starts_with(known)) continue;
            copy(known.size());
            return {};
        }
        return refuse("group", 3);
    }

    // {n}, {n,} and {n,m}, the last two optionally followed by ?. Oniguruma reads {n}? and {n}+
    // differently from PCRE2, and only Oniguruma takes {,n} for a quantifier.
    Result<void> counted() {
        size_t end = at_ + 1;
        size_t digits = 0, commas = 0;
        while (end < pattern_.size() && pattern_[end] != '}') {
            const char c = pattern_[end++];
            if (c == ',')
                ++commas;
            else if (c >= '0' && c <= '9')
                digits += commas == 0;
            else
                return refuse("brace", 1);
        }
        if (end >= pattern_.size() || digits == 0 || commas > 1) return refuse("brace", 1);
        copy(end + 1 - at_);
        if (starts_with("+") || (commas == 0 && starts_with("?"))) return refuse("quantifier", 1);
        return {};
    }

    std::string_view pattern_;
    size_t at_ = 0;
    std::string out_;
};

}  // namespace

Result<std::string> translate_split_pattern(std::string_view pattern) {
    if (utf8_prefix(pattern) != pattern.size())
        return fail(Code::unsupported,
                    cat("split pattern '", printable(pattern), "' is not UTF-8"));
    return Translator(pattern).run();
}

}  // namespace sluice
