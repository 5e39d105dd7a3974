#include "io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

// Whether the file is empty or begins with `head`. Never blocks.
bool empty_or_begins_with(const fs::path& path, std::string_view head) {
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
    for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
        if (links == 40) return refuse("is a link that leads back to itself");
        const fs::path next = fs::read_symlink(target, error);
        if (error) return refuse("is a link that cannot be followed");
        target = next.is_absolute() ? next : target.parent_path() / next;
    }
    const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
    const fs::file_status status = fs::status(target, error);
    if (fs::is_directory(status)) return refuse("is a folder; name a file");
    if (fs::exists(status) && !fs::is_regular_file(status)) return refuse("is not a regular file");
    if (!target.has_filename() || !fs::is_directory(folder, error)) {
        return refuse("its folder does not exist");
    }
    const auto denied = [&](std::string_view what) {
        return fail(Code::io,
                    cat(flag, " ", printable(path.string()), ": ", what, ": ", errno_text(errno)));
    };
    if (::access(folder.c_str(), W_OK) != 0) return denied("its folder cannot be written to");
    if (!fs::exists(status)) return target;
    if (::access(target.c_str(), R_OK) != 0) return denied("cannot be read");
    if (!empty_or_begins_with(target, head)) {
        return refuse("exists and is another kind of file; choose another name, or remove it");
    }
    if (::access(target.c_str(), W_OK) != 0) return denied("cannot be written to");
    return target;
}

Result<GrowingFile> GrowingFile::create(const fs::path& path, mode_t mode) {
    GrowingFile file;
    file.path_ = path;
    file.name_ = path.string() + ".XXXXXX";
    file.fd_ = ::mkostemp(file.name_.data(), O_CLOEXEC);
    if (file.fd_ >= 0 && ::fchmod(file.fd_, mode) == 0) return file;
    return tl::unexpected(file.failed().error());
}

GrowingFile::GrowingFile(GrowingFile&& other) noexcept
    : path_(std::move(other.path_)),
      name_(std::exchange(other.name_, {})),
      fd_(std::exchange(other.fd_, -1)),
      cause_(other.cause_) {}

GrowingFile::~GrowingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!name_.empty()) ::unlink(name_.c_str());
}

Result<void> GrowingFile::failed() {
    if (cause_ == 0) cause_ = errno;
    return fail(Code::io, cat(printable(path_.string()), ": ", errno_text(cause_)));
}

Result<void> GrowingFile::append(std::string_view bytes) {
    if (cause_ != 0) return failed();
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failed();
        bytes.remove_prefix(static_cast<size_t>(count));
    }
    return {};
}

Result<void> GrowingFile::keep() {
    if (cause_ != 0) return failed();
    if (name_.empty()) return {};
    if (::fsync(fd_) != 0 || ::close(std::exchange(fd_, -1)) != 0) return failed();
    if (::rename(name_.c_str(), path_.c_str()) != 0) return failed();
    name_.clear();
    return {};
}

Result<void> write_file_whole(const fs::path& path, std::string_view bytes, mode_t mode) {
    auto file = GrowingFile::create(path, mode);
    if (!file) return tl::unexpected(file.error());
    if (auto written = file->append(bytes); !written) return written;
    return file->keep();
}

}  // namespace sluice
