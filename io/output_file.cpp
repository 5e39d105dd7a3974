#include "io/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "io/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

// Whether the file is empty or begins with `head`. Never blocks.
bool of_its_kind(const fs::path& path, std::string_view head) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    std::string begin(head.size(), '\0');
    const ssize_t got = ::read(fd, begin.data(), begin.size());
    ::close(fd);
    return got == 0 || (got == static_cast<ssize_t>(head.size()) && begin == head);
}

}  // namespace

Result<fs::path> output_file(std::string_view flag, const fs::path& path, std::string_view head) {
    const auto refuse = [&](std::string_view why) {
        return fail(Code::usage, cat(flag, " ", printable(path.string()), ": ", why));
    };
    std::error_code error;
    fs::path target = path;
    for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); links++) {
        if (links == 40) return refuse("is a link to itself");
        const fs::path next = fs::read_symlink(target, error);
        if (error) return refuse("is a link that cannot be followed");
        target = next.is_absolute() ? next : target.parent_path() / next;
    }
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    const fs::file_status status = fs::status(target, error);
    if (fs::is_directory(status)) return refuse("is a folder; give the name of a file");
    if (fs::exists(status) && !fs::is_regular_file(status)) return refuse("is not a regular file");
    if (!target.has_filename() || !fs::is_directory(folder, error)) {
        return refuse("its folder does not exist");
    }
    if (::access(folder.c_str(), W_OK) != 0) return refuse("its folder cannot be written to");
    if (!fs::exists(status)) return target;
    if (!of_its_kind(target, head)) {
        return refuse("is there and is another kind of file; give another name, or remove it");
    }
    if (::access(target.c_str(), W_OK) != 0) return refuse("cannot be written to");
    return target;
}

}  // namespace sluice
