#include "engine/text/python_constants.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "engine/text/utf8.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr size_t text_bytes_max = size_t{256} << 10, all_bytes_max = size_t{8} << 20;
constexpr int parentheses_max = 16;

bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

bool is_quote(char c) {
    return c == '"' || c == '\'';
}

// Words behind which a ':' ends a condition or the like, not the name of an annotated variable.
bool begins_block(std::string_view word) {
    constexpr std::array<std::string_view, 14> words{"if",    "elif",  "else",   "while",   "for",
                                                     "with",  "try",   "except", "finally", "def",
                                                     "class", "match", "case",   "async"};
    return std::find(words.begin(), words.end(), word) != words.end();
}

// Python reads any line end as '\n'.
std::string with_plain_line_ends(std::string_view source) {
    std::string out;
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r')
            out += source[i];
        else if (i + 1 == source.size() || source[i + 1] != '\n')
            out += '\n';
    }
    return out;
}

class Reader {
 public:
    explicit Reader(std::string source) : text_(std::move(source)) {}

    Result<std::vector<PythonConstant>> run() {
        while (at_ < text_.size() && problem_.empty()) statement();
        if (!problem_.empty()) {
            const auto before = text_.begin() + static_cast<std::ptrdiff_t>(problem_at_);
            return fail(Code::corrupt,
                        cat("line ", 1 + std::count(text_.begin(), before, '\n'), ": ", problem_));
        }
        std::erase_if(found_, [](const PythonConstant& one) { return one.name.empty(); });
        return std::move(found_);
    }

 private:
    // A value so far. Its texts are joined; the first problem counts.
    struct Value {
        std::string text, problem;
        bool begun = false;
        void join(std::string_view more) {
            begun = true;
            text += more;
            if (text.size() > text_bytes_max) {
                text.clear();
                problem = cat("a text of more than ", size_text(text_bytes_max));
            }
        }
    };

    char here(size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
    }
    bool take(char c) {
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void break_off(size_t at, std::string problem) {
        if (!problem_.empty()) return;
        problem_at_ = at;
        problem_ = std::move(problem);
    }

    // One logical line, or an assignment in front of a ';'.
    void statement() {
        const size_t begin = at_;
        line_ += static_cast<size_t>(
            std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                       text_.begin() + static_cast<std::ptrdiff_t>(begin), '\n'));
        counted_ = begin;
        if (assignment() || !problem_.empty()) return;
        at_ = begin;
        pass_over();
    }

    std::string_view name() {
        const size_t begin = at_;
        while (at_ < text_.size() && is_name(text_[at_])) ++at_;
        return std::string_view(text_).substr(begin, at_ - begin);
    }

    void comment() {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    }

    // White space between tokens: with line ends and comments in parentheses.
    void space(bool inside) {
        while (at_ < text_.size()) {
            const char c = here();
            if (c == ' ' || c == '\t' || c == '\f' || (inside && c == '\n'))
                ++at_;
            else if (c == '\\' && here(1) == '\n' && at_ + 1 < text_.size())
                at_ += 2;
            else if (inside && c == '#')
                comment();
            else
                break;
        }
    }

    bool assignment() {
        const std::string variable(name());
        if (variable.empty() || (variable[0] >= '0' && variable[0] <= '9')) return false;
        space(false);
        if (take(':')) {
            if (begins_block(variable) || !annotation()) return false;
        }
        if (!take('=')) return false;
        space(false);
        if (here() == '{') return dictionary(variable);
        Value value;
        if (!expression(value, 0) || !statement_ends()) return false;
        store(variable, std::move(value));
        return true;
    }

    bool statement_ends() {
        space(false);
        if (take(';'))
            space(false);
        else if (here() == '#')
            comment();
        else if (here() != '\n')
            return false;
        take('\n');
        return true;
    }

    // { "key": value, ... } as the value of `variable`.
    bool dictionary(const std::string& variable) {
        std::vector<std::pair<std::string, Value>> found;
        size_t bytes = all_bytes_;
        take('{');
        for (space(true); !take('}'); space(true)) {
            Value key, value;
            if (!literal_ahead() || !term(key, 1) || !is_word(key.text)) return false;
            space(true);
            if (!take(':') || !entry(value)) return false;
            if (!take(',') && here() != '}') return false;
            bytes += value.text.size();
            if (bytes > all_bytes_max) return too_much(), false;
            found.emplace_back(python_entry(variable, key.text), std::move(value));
        }
        if (!statement_ends()) return false;
        forget(variable);
        for (auto& [name, value] : found) {
            store(name, std::move(value));
            entries_[variable].push_back(name);
        }
        return true;
    }

    static bool is_word(std::string_view key) {
        return !key.empty() &&
               std::all_of(key.begin(), key.end(), [](char c) { return is_name(c) || c == '-'; });
    }

    // The value of a key: as one of a variable, or it begins with an earlier name, or it is None.
    bool entry(Value& value) {
        space(true);
        value.begun = true;
        const size_t begin = at_;
        const bool none = !literal_ahead() && name() == "None";
        if (!none) {
            at_ = begin;
            if (!expression(value, 1)) return false;
        }
        space(true);
        return true;
    }

    // Up to the '=' behind it; false if there is none.
    bool annotation() {
        int depth = 0;
        while (at_ < text_.size() && problem_.empty()) {
            const char c = here();
            if (depth == 0 && (c == '=' || c == '\n' || c == ';' || c == '#')) return c == '=';
            token(depth);
        }
        return false;
    }

    void store(const std::string& name, Value value) {
        forget(name);
        all_bytes_ += value.text.size();
        if (all_bytes_ > all_bytes_max) return too_much();
        places_[name] = found_.size();
        found_.push_back({name, line_, std::move(value.text), std::move(value.problem)});
    }

    void too_much() { break_off(at_, cat("more than ", size_text(all_bytes_max), " of text")); }

    void forget(const std::string& name) {
        if (const auto entries = entries_.extract(name)) {
            for (const std::string& one : entries.mapped()) forget(one);
        }
        const auto place = places_.find(name);
        if (place == places_.end()) return;
        found_[place->second].name.clear();
        places_.erase(place);
    }

    // term { '+' term }. False: not a value that is read.
    bool expression(Value& value, int parentheses) {
        while (true) {
            space(parentheses > 0);
            if (!term(value, parentheses)) return false;
            space(parentheses > 0);
            if (!take('+')) return true;
        }
    }

    bool term(Value& value, int parentheses) {
        if (here() == '(') {
            if (parentheses == parentheses_max) return false;
            ++at_;
            return expression(value, parentheses + 1) && take(')');
        }
        if (!literal_ahead()) return value.begun && earlier(value);
        while (literal_ahead()) {
            if (!literal(value)) return false;
            space(parentheses > 0);
        }
        return true;
    }

    bool earlier(Value& value) {
        const auto place = places_.find(std::string(name()));
        if (place == places_.end()) return false;
        const PythonConstant& constant = found_[place->second];
        if (value.problem.empty()) value.problem = constant.problem;
        value.join(constant.text);
        return true;
    }

    // The letters in front of a quote: at most two of those that a literal may have.
    size_t prefix_length() const {
        size_t length = 0;
        while (length < 2 && std::string_view("rRuUbBfFtT").find(here(length)) != std::string::npos)
            ++length;
        return is_quote(here(length)) ? length : 0;
    }
    bool literal_ahead() const { return is_quote(here(prefix_length())); }

    // A literal as a part of a value; false if its prefix makes it something else.
    bool literal(Value& value) {
        const std::string prefix = text_.substr(at_, prefix_length());
        const bool raw = prefix == "r" || prefix == "R";
        const bool plain = prefix.empty() || prefix == "u" || prefix == "U";
        const std::string_view characters = skip_literal();
        if (!problem_.empty() || !(raw || plain)) return false;
        if (raw) {
            value.join(characters);
            return true;
        }
        auto text = python_unescape(characters);
        if (!text && value.problem.empty()) value.problem = text.error().message;
        value.join(text ? *text : "");
        return true;
    }

    // Moves behind a literal; returns what is between its quotes.
    std::string_view skip_literal() {
        const size_t begin = at_;
        at_ += prefix_length();
        const char quote = here();
        const size_t quotes = here(1) == quote && here(2) == quote ? 3 : 1;
        const std::string closing(quotes, quote);
        at_ += quotes;
        const size_t first = at_;
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\\') {
                ++at_;
            } else if (text_.compare(at_, quotes, closing) == 0) {
                at_ += quotes;
                return std::string_view(text_).substr(first, at_ - quotes - first);
            } else if (text_[at_] == '\n' && quotes == 1) {
                break;
            }
        }
        at_ = std::min(at_, text_.size());
        break_off(begin, "a string that does not end");
        return {};
    }

    // Moves behind one token, or one character between tokens; counts open brackets.
    void token(int& depth) {
        const char c = here();
        if (literal_ahead()) {
            skip_literal();
        } else if (is_name(c)) {
            name();
        } else if (c == '#') {
            comment();
        } else {
            if (c == '(' || c == '[' || c == '{') ++depth;
            if (c == ')' || c == ']' || c == '}') depth = std::max(depth - 1, 0);
            at_ += c == '\\' && at_ + 1 < text_.size() ? 2 : 1;
        }
    }

    // To the end of the logical line. The names that it assigns have no known value any more.
    void pass_over() {
        const size_t begin = at_;
        const bool at_module_level = here() != ' ' && here() != '\t';
        std::vector<std::string> names;
        for (int depth = 0; at_ < text_.size() && problem_.empty();) {
            const char c = here();
            if (depth == 0 && c == '\n') break;
            if (depth == 0 && at_module_level) {
                if (is_name(c) && !literal_ahead()) {
                    names.emplace_back(name());
                    continue;
                }
                if (c == ':' && !names.empty() && begins_block(names.front())) names.clear();
                if (assigns(begin)) {
                    for (const std::string& one : names) forget(one);
                    names.clear();
                }
            }
            token(depth);
            if (at_ >= text_.size() && depth > 0) break_off(begin, "a bracket that does not close");
        }
        take('\n');
    }

    bool assigns(size_t begin) const {
        if (here() != '=' || here(1) == '=') return false;
        return at_ == begin || std::string_view("=!<>").find(text_[at_ - 1]) == std::string::npos;
    }

    std::string text_;
    size_t at_ = 0;
    size_t line_ = 1, counted_ = 0;      // the line of the statement, and where counting stopped
    std::vector<PythonConstant> found_;  // without a name: forgotten
    std::unordered_map<std::string, size_t> places_;
    std::unordered_map<std::string, std::vector<std::string>> entries_;  // of a dict, by its name
    size_t all_bytes_ = 0;
    std::string problem_;
    size_t problem_at_ = 0;
};

}  // namespace

std::string python_entry(std::string_view dict, std::string_view key) {
    return cat(dict, "[\"", key, "\"]");
}

Result<std::vector<PythonConstant>> read_python_constants(std::string_view source) {
    if (source.starts_with("\xef\xbb\xbf")) source.remove_prefix(3);
    const size_t valid = std::min(utf8_prefix(source), source.find('\0'));
    if (valid < source.size()) {
        const auto lines = std::count(source.begin(), source.begin() + valid, '\n');
        return fail(Code::corrupt, cat("line ", 1 + lines, ": ",
                                       source[valid] == '\0' ? "a zero byte" : "not valid UTF-8"));
    }
    return Reader(with_plain_line_ends(source)).run();
}

}  // namespace sluice
