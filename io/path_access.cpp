#include "io/path_access.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr int links_max = 40;

bool refused(const fs::path& path, int wanted) {
    return ::faccessat(AT_FDCWD, path.c_str(), wanted, AT_EACCESS) != 0 && errno == EACCES;
}

// The first folder on the way to `path` that may not be entered. Links at `path` are followed.
fs::path denied_folder(const fs::path& path) {
    std::error_code ignored;
    fs::path at = fs::absolute(path, ignored);
    for (int links = 0; links < links_max; ++links) {
        fs::path way;
        for (const fs::path& part : at.parent_path()) {
            way /= part;
            if (refused(way, X_OK)) return way;
        }
        const fs::path next = fs::read_symlink(at, ignored);
        if (ignored) break;
        at = next.is_absolute() ? next : at.parent_path() / next;
    }
    return {};
}

}  // namespace

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
}

bool is_entry(const fs::path& path) {
    std::error_code ignored;
    return fs::symlink_status(path, ignored).type() > fs::file_type::not_found;
}

std::optional<Error> no_permission(const fs::path& path, int wanted) {
    const std::string name = cat(printable(path.string()), ": ", errno_text(EACCES));
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        if (errno != EACCES) return std::nullopt;
        const fs::path denied = denied_folder(path);
        if (denied.empty()) return Error{Code::io, name};
        return Error{Code::io, cat(name, ": cannot enter the folder ", printable(denied.string()))};
    }
    if (wanted == 0 || !refused(path, wanted)) return std::nullopt;
    const char* what = !S_ISDIR(info.st_mode)         ? "cannot read the file"
                       : refused(path, X_OK & wanted) ? "cannot enter the folder"
                                                      : "cannot list the folder";
    return Error{Code::io, cat(name, ": ", what)};
}

}  // namespace sluice
