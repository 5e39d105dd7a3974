#include "io/mount.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace sluice {

namespace {

bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

// The kernel writes blanks and backslashes in names as \ooo.
std::string unescape(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool escaped = text[i] == '\\' && text.size() - i > 3 && is_octal(text[i + 1]) &&
                             is_octal(text[i + 2]) && is_octal(text[i + 3]);
        if (!escaped) {
            out += text[i];
            continue;
        }
        out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
        i += 3;
    }
    return out;
}

bool is_under(std::string_view path, std::string_view point) {
    if (point == "/") return true;
    return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

}  // namespace

Mount mount_of(const std::filesystem::path& path, std::string_view mountinfo) {
    Mount best{"?", "?"};
    size_t best_length = 0;
    std::istringstream lines{std::string(mountinfo)};
    for (std::string line; std::getline(lines, line);) {
        // id parent device root POINT options [optional fields] - TYPE source options
        std::istringstream words(line);
        const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
        size_t dash = 6;
        while (dash < fields.size() && fields[dash] != "-") ++dash;
        if (dash + 1 >= fields.size()) continue;
        const std::string point = unescape(fields[4]);
        // Of two mounts on one point the later hides the earlier.
        if (!is_under(path.native(), point) || point.size() < best_length) continue;
        best = {point, unescape(fields[dash + 1])};
        best_length = point.size();
    }
    return best;
}

Mount mount_of(const std::filesystem::path& path) {
    std::error_code error;
    const auto resolved = std::filesystem::canonical(path, error);
    std::ifstream file("/proc/self/mountinfo");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return mount_of(error ? path : resolved, text);
}

}  // namespace sluice
