#include "tools/options/config_file.h"

#include <cstdlib>

#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

bool is_key_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

// Reads one line of a file, left to right.
class LineParser {
 public:
    explicit LineParser(std::string_view text) : text_(text) {}

    void skip_spaces() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }
    // True at the end of the line or a comment.
    bool done() {
        skip_spaces();
        return at_ == text_.size() || text_[at_] == '#';
    }
    bool take(char c) {
        skip_spaces();
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    Result<std::string> key() {
        skip_spaces();
        size_t begin = at_;
        while (at_ < text_.size() && is_key_char(text_[at_])) ++at_;
        if (at_ == begin) return fail(Code::usage, "expected a key such as ctx-size");
        return std::string(text_.substr(begin, at_ - begin));
    }
    Result<std::string> value() {
        skip_spaces();
        if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return quoted();
        size_t begin = at_;
        while (at_ < text_.size() &&
               (is_key_char(text_[at_]) || text_[at_] == '.' || text_[at_] == '+'))
            ++at_;
        std::string_view word = text_.substr(begin, at_ - begin);
        bool number = !word.empty() && (word[0] == '-' || word[0] == '+' || word[0] == '.' ||
                                        (word[0] >= '0' && word[0] <= '9'));
        if (number || word == "true" || word == "false") return std::string(word);
        return fail(Code::usage, "expected a value: a number, true, false or a \"string\"");
    }

 private:
    Result<std::string> quoted() {
        char quote = text_[at_++];
        std::string out;
        while (at_ < text_.size() && text_[at_] != quote) {
            char c = text_[at_++];
            if (quote == '"' && c == '\\') {
                char escape = at_ < text_.size() ? text_[at_++] : '\0';
                if (escape == 'n')
                    c = '\n';
                else if (escape == 't')
                    c = '\t';
                else if (escape == '"' || escape == '\\')
                    c = escape;
                else
                    return fail(Code::usage, "unknown escape in a string");
            }
            out += c;
        }
        if (at_ == text_.size()) return fail(Code::usage, "a string has no closing quote");
        ++at_;
        return out;
    }

    std::string_view text_;
    size_t at_ = 0;
};

Result<ConfigEntry> parse_line(std::string_view line) {
    LineParser parser(line);
    if (parser.take('[')) return fail(Code::usage, "tables are not supported, only keys");
    auto key = parser.key();
    if (!key) return tl::unexpected(key.error());
    if (!parser.take('=')) return fail(Code::usage, cat("expected \"", *key, " = value\""));
    ConfigEntry entry{*key, {}, 0};
    bool list = parser.take('[');
    while (true) {
        if (list && parser.take(']')) break;
        auto value = parser.value();
        if (!value) return tl::unexpected(value.error());
        entry.values.push_back(*value);
        if (!list) break;
        if (!parser.take(',')) {
            if (parser.take(']')) break;
            return fail(Code::usage, "expected , or ] in an array");
        }
    }
    if (!parser.done()) return fail(Code::usage, "unexpected text after the value");
    return entry;
}

std::string folder_from(const char* variable, const char* below_home) {
    const char* value = std::getenv(variable);
    if (value && value[0] == '/') return value;
    const char* home = std::getenv("HOME");
    return home && home[0] ? cat(home, below_home) : std::string();
}

constexpr const char* config_name = "config.toml";

// Settings that exist but cannot be read are an error, because a run without them is not what was
// asked for. A home folder that may not be entered has no settings.
Result<bool> has_config(const std::filesystem::path& folder) {
    const std::filesystem::path path = folder / config_name;
    std::error_code error;
    if (!std::filesystem::exists(std::filesystem::symlink_status(folder, error))) return false;
    if (auto closed = no_permission(path)) return tl::unexpected(std::move(*closed));
    for (const auto& part : {folder, path}) {
        if (!is_entry(part)) return false;
        if (is_there(part)) continue;
        return fail(Code::usage, cat(printable(part.string()),
                                     ": a link to a missing file; repair or remove it"));
    }
    if (std::filesystem::is_regular_file(path, error)) return true;
    return fail(Code::usage, cat(printable(path.string()), " is not a file; remove or rename it"));
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config_file(std::string_view file, std::string_view text) {
    std::vector<ConfigEntry> entries;
    int line = 0;
    while (!text.empty()) {
        size_t end = text.find('\n');
        std::string_view row = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        ++line;
        if (LineParser(row).done()) continue;
        auto entry = parse_line(row);
        if (!entry) return within(cat(file, " line ", line), entry.error());
        entry->line = line;
        for (const auto& other : entries) {
            if (other.key == entry->key) {
                return fail(Code::usage, cat(file, " line ", line, ": ", entry->key,
                                             " is already set in line ", other.line));
            }
        }
        entries.push_back(std::move(*entry));
    }
    return entries;
}

Result<std::vector<std::filesystem::path>> config_files(const std::string& chosen) {
    std::error_code error;
    if (!chosen.empty()) {
        if (auto closed = no_permission(chosen)) return within("--config", std::move(*closed));
        if (!std::filesystem::is_regular_file(chosen, error)) {
            return fail(Code::usage, cat("--config: ", printable(chosen),
                                         " is not a file; give one, or omit --config"));
        }
        return std::vector<std::filesystem::path>{chosen};
    }
    std::vector<std::filesystem::path> found;
    std::string user = folder_from("XDG_CONFIG_HOME", "/.config");
    for (const std::string& folder : {user, std::string("/etc")}) {
        if (folder.empty()) continue;
        auto there = has_config(std::filesystem::path(folder) / "sluice");
        if (!there) return tl::unexpected(there.error());
        if (*there) found.push_back(std::filesystem::path(folder) / "sluice" / config_name);
    }
    return found;
}

}  // namespace sluice
