#include "engine/cache_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "io/checksum.h"
#include "io/file.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t text_max = 4096;

std::filesystem::path path_of(std::string_view kind, std::string_view identity) {
    const std::string folder = cache_folder();
    if (folder.empty()) return {};
    const std::string name = checksum_text(checksum(identity.data(), identity.size()));
    return std::filesystem::path(folder) / cat(kind, "-", name);
}

}  // namespace

std::string cache_folder() {
    const char* xdg = std::getenv("XDG_CACHE_HOME");
    if (xdg && *xdg == '/') return cat(xdg, "/sluice");
    const char* home = std::getenv("HOME");
    return home && *home == '/' ? cat(home, "/.cache/sluice") : std::string();
}

std::optional<std::string> recall(std::string_view kind, std::string_view identity) {
    const auto path = path_of(kind, identity);
    if (path.empty()) return std::nullopt;
    auto text = read_text(path, text_max);
    const std::string head = cat(identity, "\n");
    if (!text || !text->starts_with(head) || !text->ends_with("\n")) return std::nullopt;
    std::string rest = text->substr(head.size());
    if (!rest.empty()) rest.pop_back();
    return rest;
}

bool remember(std::string_view kind, std::string_view identity, std::string_view text) {
    const auto path = path_of(kind, identity);
    if (path.empty()) return false;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    const std::string content = cat(identity, "\n", text, text.empty() ? "" : "\n");
    // A name nobody has: whatever lies there, a pipe or a link, is neither opened nor followed.
    std::string fresh = path.string() + ".XXXXXX";
    const int fd = ::mkostemp(fresh.data(), O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t written = ::write(fd, content.data(), content.size());
    const bool closed = ::close(fd) == 0;
    if (closed && written == static_cast<ssize_t>(content.size()) &&
        std::rename(fresh.c_str(), path.c_str()) == 0) {
        return true;
    }
    ::unlink(fresh.c_str());
    return false;
}

}  // namespace sluice
