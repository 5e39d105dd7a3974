#include "tools/batch/batch_output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "io/json.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view head = "{\"custom_id\":";

tl::unexpected<Error> failed(const std::filesystem::path& path, std::string_view what, int cause) {
    return fail(Code::io,
                cat(printable(path.native()), ": ", what, ": ", std::strerror(cause)));
}

Result<std::string> read_all(int fd, const std::filesystem::path& path) {
    std::string text;
    char buffer[1 << 16];
    while (true) {
        const ssize_t count = ::read(fd, buffer, sizeof buffer);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failed(path, "cannot be read", errno);
        if (count == 0) return text;
        text.append(buffer, static_cast<size_t>(count));
    }
}

Result<void> write_all(int fd, const std::filesystem::path& path, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failed(path, "cannot be written", errno);
        text.remove_prefix(static_cast<size_t>(count));
    }
    return {};
}

// The id of a line that answers one; nothing for a line with an error.
std::optional<std::string> answered_id(const Json& line) {
    if (!line["error"].is_null() || !line["response"].is_object()) return std::nullopt;
    const auto id = line["custom_id"].string();
    return id ? std::optional(*id) : std::nullopt;
}

}  // namespace

Result<BatchOutput> BatchOutput::open(std::string_view flag, const std::filesystem::path& path) {
    const auto target = output_file(flag, path, head);
    if (!target) return tl::unexpected(target.error());
    BatchOutput out;
    out.path_ = *target;
    if (auto locked = out.lock(flag); !locked) return tl::unexpected(locked.error());
    if (auto taken = out.take_over(flag); !taken) return tl::unexpected(taken.error());
    return out;
}

// Opens and locks what is at the path now.
Result<void> BatchOutput::lock(std::string_view flag) {
    const int fd =
        ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        const auto cause = failed(path_, "cannot be opened", errno);
        return within(flag, cause.value());
    }
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
    struct stat opened {
    }, there{};
    const bool locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    // Another batch may have replaced the file between opening and locking.
    const bool same = ::fstat(fd_, &opened) == 0 && ::stat(path_.c_str(), &there) == 0 &&
                      opened.st_ino == there.st_ino && opened.st_dev == there.st_dev;
    if (locked && same) return {};
    return fail(Code::usage, cat(flag, ": ", printable(path_.native()),
                                 " is the output of a batch that is running; wait for it, or name "
                                 "another file"));
}

// Keeps the answered lines. The file is replaced if something has to go.
Result<void> BatchOutput::take_over(std::string_view flag) {
    const auto text = read_all(fd_, path_);
    if (!text) return tl::unexpected(text.error());
    std::string kept;
    size_t number = 0;
    for (size_t begin = 0; begin < text->size();) {
        const size_t end = text->find('\n', begin);
        if (end == std::string::npos) break;  // not written whole
        const std::string_view line = std::string_view(*text).substr(begin, end + 1 - begin);
        begin = end + 1;
        ++number;
        const auto json = Json::parse(line);
        if (!json || !json->is_object() || !json->has("custom_id") || !json->has("error")) {
            return fail(Code::usage, cat(flag, ": line ", number, " of ", printable(path_.native()),
                                         " is no result of a batch; name another file"));
        }
        auto id = answered_id(*json);
        if (!id) continue;
        answered_.insert(std::move(*id));
        kept += line;
    }
    if (kept.size() == text->size()) return {};
    if (auto written = write_file_whole(path_, kept); !written) return written;
    return lock(flag);
}

BatchOutput::BatchOutput(BatchOutput&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      answered_(std::move(other.answered_)) {}

BatchOutput::~BatchOutput() {
    if (fd_ >= 0) ::close(fd_);
}

Result<void> BatchOutput::add(std::string_view line) {
    return write_all(fd_, path_, line);
}

}  // namespace sluice
