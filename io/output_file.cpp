#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
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

// Writes and syncs an open file; the caller closes it.
bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        bytes.remove_prefix(static_cast<size_t>(count));
    }
    return ::fsync(fd) == 0;
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
    const auto closed = [&](std::string_view what) {
        return fail(Code::io,
                    cat(flag, " ", printable(path.string()), ": ", what, ": ", errno_text(errno)));
    };
    if (::access(folder.c_str(), W_OK) != 0) return closed("its folder cannot be written to");
    if (!fs::exists(status)) return target;
    if (::access(target.c_str(), R_OK) != 0) return closed("cannot be read");
    if (!of_its_kind(target, head)) {
        return refuse("is there and is another kind of file; give another name, or remove it");
    }
    if (::access(target.c_str(), W_OK) != 0) return closed("cannot be written to");
    return target;
}

Result<void> write_file_whole(const fs::path& path, std::string_view bytes, mode_t mode) {
    std::string name = path.string() + ".XXXXXX";
    int fd = ::mkostemp(name.data(), O_CLOEXEC);
    bool done = fd >= 0 && ::fchmod(fd, mode) == 0 && write_all(fd, bytes);
    if (fd >= 0) done = ::close(fd) == 0 && done;
    done = done && ::rename(name.c_str(), path.c_str()) == 0;
    if (done) return {};
    int cause = errno;
    if (fd >= 0) ::unlink(name.c_str());
    return fail(Code::io, cat(printable(path.string()), ": ", std::strerror(cause)));
}

}  // namespace sluice
