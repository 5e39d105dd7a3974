#include "io/mount.h"

#include <sys/sysmacros.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "io/text.h"

namespace sluice {

namespace {

bool is_octal(char c) {
    return c >= '0' && c <= '7';
}

// The kernel escapes blanks and backslashes in names as \ooo.
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

std::vector<Mount> mounts_in(std::string_view mountinfo) {
    std::vector<Mount> mounts;
    std::istringstream lines{std::string(mountinfo)};
    for (std::string line; std::getline(lines, line);) {
        // id parent device root POINT options [optional fields] - TYPE source options
        std::istringstream words(line);
        const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
        size_t dash = 6;
        while (dash < fields.size() && fields[dash] != "-") ++dash;
        if (dash + 1 >= fields.size()) continue;
        mounts.push_back({unescape(fields[4]), unescape(fields[dash + 1]),
                          dash + 2 < fields.size() ? unescape(fields[dash + 2]) : ""});
    }
    return mounts;
}

std::string own_mountinfo() {
    std::ifstream file("/proc/self/mountinfo");
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Mount mount_of(const std::filesystem::path& path, std::string_view mountinfo) {
    Mount best{"?", "?", ""};
    size_t best_length = 0;
    for (Mount& mount : mounts_in(mountinfo)) {
        // A later mount on the same point hides an earlier one.
        const size_t length = mount.point.size();
        if (!is_under(path.native(), mount.point) || length < best_length) continue;
        best = std::move(mount);
        best_length = length;
    }
    return best;
}

Mount mount_of(const std::filesystem::path& path) {
    std::error_code error;
    const auto resolved = std::filesystem::canonical(path, error);
    return mount_of(error ? path : resolved, own_mountinfo());
}

std::vector<Mount> all_mounts() {
    return mounts_in(own_mountinfo());
}

std::string drive_name(uint64_t device) {
    const auto number = static_cast<dev_t>(device);
    std::error_code problem;
    const auto link = std::filesystem::read_symlink(
        cat("/sys/dev/block/", major(number), ":", minor(number)), problem);
    return problem ? "" : printable(link.filename().string());
}

}  // namespace sluice
