#include "tools/answer/session_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/file.h"
#include "io/output_file.h"
#include "io/text.h"
#include "tools/answer/messages.h"

namespace sluice {

namespace {

constexpr uint64_t bytes_max = uint64_t{64} << 20;

std::string named(const std::filesystem::path& path) {
    return cat("--session ", printable(path.string()));
}

tl::unexpected<Error> failed(const std::filesystem::path& path, int number) {
    return fail(Code::io, cat(named(path), ": ", errno_text(number)));
}

}  // namespace

SessionFile::SessionFile(SessionFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      created_(std::exchange(other.created_, false)),
      messages_(std::move(other.messages_)) {}

SessionFile::~SessionFile() {
    if (created_) ::unlink(path_.c_str());
    if (fd_ >= 0) ::close(fd_);
}

Result<SessionFile> SessionFile::open(const std::filesystem::path& path) {
    // Any beginning is allowed here: what is no conversation is refused by read().
    auto target = output_file("--session", path, "");
    if (!target) return tl::unexpected(target.error());
    SessionFile file;
    file.path_ = std::move(*target);
    if (auto locked = file.lock(); !locked) return tl::unexpected(locked.error());
    if (auto read = file.read(); !read) return tl::unexpected(read.error());
    return file;
}

// The file may be replaced, or removed, between open and flock: then the lock is on one that has no
// name any more.
Result<void> SessionFile::lock() {
    while (true) {
        fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
        if (fd_ < 0 && errno == ENOENT) {
            fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
            if (fd_ < 0 && errno == EEXIST) continue;
            created_ = fd_ >= 0;
        }
        if (fd_ < 0) return failed(path_, errno);
        if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
            created_ = false;  // whoever has it may be writing to it
            if (errno != EWOULDBLOCK) return failed(path_, errno);
            return fail(Code::io, cat(named(path_), ": another run is adding to it; wait for it, "
                                                    "or use another file"));
        }
        struct stat mine {}, there {};
        const bool known = ::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0;
        if (known && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino) return {};
        ::close(std::exchange(fd_, -1));
        created_ = false;
    }
}

Result<void> SessionFile::read() {
    const auto text = read_text(path_, bytes_max);
    if (!text) return tl::unexpected(text.error());
    if (text->empty()) return {};
    auto messages = parse_messages(named(path_), *text);
    if (!messages) {
        return fail(messages.error().code,
                    cat(messages.error().message,
                        "; the file stays as it is: repair it, or use another one"));
    }
    messages_ = std::move(*messages);
    return {};
}

Result<void> SessionFile::save(const std::vector<Message>& messages) {
    if (auto written = write_file_whole(path_, messages_json(messages)); !written) {
        return within("--session", written.error());
    }
    created_ = false;
    return {};
}

}  // namespace sluice
