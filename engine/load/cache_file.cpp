#include "engine/load/cache_file.h"

#include <cstdlib>
#include <filesystem>

#include "io/checksum.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice {

namespace {

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

std::string not_remembered() {
    const std::string folder = cache_folder();
    if (folder.empty()) return "cannot be saved: neither XDG_CACHE_HOME nor HOME is set";
    return cat("cannot be saved in the cache folder ", printable(folder),
               " (set XDG_CACHE_HOME to choose another)");
}

std::optional<std::string> recall(std::string_view kind, std::string_view identity,
                                  uint64_t text_max) {
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
    // A pipe or a link at that path is neither opened nor followed.
    return write_file_whole(path, content).has_value();
}

}  // namespace sluice
