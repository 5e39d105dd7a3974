#include "tools/options/user_text.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/text/utf8.h"
#include "io/file.h"
#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t file_max = uint64_t{64} << 20;

}  // namespace

Error named_file_error(Error error) {
    if (error.code != Code::io) error.code = Code::usage;
    return error;
}

Result<void> check_utf8(std::string_view where, std::string_view text) {
    const size_t valid = utf8_prefix(text);
    if (valid == text.size()) return {};
    const std::string byte = formatted("0x{:02x}", static_cast<unsigned char>(text[valid]));
    return fail(Code::usage, cat(where, ": not UTF-8: byte ", byte, " at offset ", valid,
                                 utf8_at(text, valid).state == Utf8State::unfinished
                                     ? " begins an incomplete character"
                                     : ""));
}

void drop_byte_order_mark(std::string& text) {
    constexpr std::string_view mark = "\xef\xbb\xbf";
    if (text.starts_with(mark)) text.erase(0, mark.size());
}

std::string home_expanded(const std::string& path) {
    if (!path.starts_with('~')) return path;
    const size_t end = std::min(path.find('/'), path.size());
    const std::string name = path.substr(1, end - 1);
    const char* home = name.empty() ? std::getenv("HOME") : nullptr;
    if (!home) {
        const passwd* entry = name.empty() ? ::getpwuid(::getuid()) : ::getpwnam(name.c_str());
        if (entry) home = entry->pw_dir;
    }
    return home ? home + path.substr(end) : path;
}

std::vector<std::string> paths_beginning(const std::string& text) {
    const size_t slash = text.rfind('/');
    const std::string head = slash == text.npos ? "" : text.substr(0, slash + 1);
    const std::string begin = text.substr(head.size());
    std::vector<std::string> out;
    std::error_code error;
    const std::string folder = head.empty() ? "." : home_expanded(head);
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with(begin) || (name[0] == '.' && begin.empty())) continue;
        out.push_back(cat(head, name, entry.is_directory(error) ? "/" : ""));
    }
    std::ranges::sort(out);
    return out;
}

Result<std::string> read_user_file(std::string_view flag, const std::string& path) {
    auto text = read_text(path, file_max);
    if (!text && text.error().code == Code::unsupported) {
        text.error().message += flag == "-f" ? "; give one, or pipe it to -p -" : "; give one";
    }
    if (!text) return within(flag, named_file_error(std::move(text).error()));
    if (auto valid = check_utf8(cat(flag, ": ", printable(path)), *text); !valid) {
        return tl::unexpected(std::move(valid).error());
    }
    drop_byte_order_mark(*text);
    return text;
}

}  // namespace sluice
