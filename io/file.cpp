#include "io/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "io/log.h"
#include "io/memory.h"
#include "io/mount.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t piece_max = uint64_t{1} << 30;  // one read moves less than 2 GiB
constexpr uint64_t bounce_bytes = uint64_t{4} << 20;
constexpr uint32_t alignment_max = 1u << 20;
// Tries in a row without a byte of progress.
constexpr int tries_max = 100;

// Alignment for direct reads of an open file; nullopt if its file system reports none that is
// usable.
std::optional<uint32_t> direct_alignment(int fd) {
    constexpr uint32_t unknown = page_size;
#ifdef STATX_DIOALIGN
    struct statx info;
    std::memset(&info, 0, sizeof info);
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0) return unknown;
    if ((info.stx_mask & STATX_DIOALIGN) == 0) return unknown;
    const uint32_t memory = info.stx_dio_mem_align, offset = info.stx_dio_offset_align;
    if (!std::has_single_bit(memory) || !std::has_single_bit(offset)) return std::nullopt;
    if (memory > page_size || offset > alignment_max) return std::nullopt;
    return std::max(memory, offset);
#else
    (void)fd;
    return unknown;
#endif
}

FileIdentity identity_of(const struct stat& info) {
    return {.device = info.st_dev,
            .inode = info.st_ino,
            .size = static_cast<uint64_t>(info.st_size),
            .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

// Whether an inode's change time follows the rules of Linux here: file systems behind a network or
// a user program have their own.
bool keeps_inode_time(int fd) {
    constexpr std::array<unsigned, 6> others = {FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC,
                                                SMB2_SUPER_MAGIC, SMB_SUPER_MAGIC, V9FS_MAGIC};
    struct statfs system {};
    return fstatfs(fd, &system) == 0 &&
           std::find(others.begin(), others.end(), static_cast<unsigned>(system.f_type)) ==
               others.end();
}

FileStatus status_of(int fd, const struct stat& info, const std::filesystem::path& path) {
    struct stat there {};
    const bool named = stat(path.c_str(), &there) == 0 && identity_of(there) == identity_of(info);
    const int64_t touched = int64_t{info.st_ctim.tv_sec} * 1'000'000'000 + info.st_ctim.tv_nsec;
    return {
        .touched_ns = keeps_inode_time(fd) ? touched : 0, .links = info.st_nlink, .named = named};
}

Error open_error(const std::filesystem::path& path, int number) {
    const std::string name = printable(path.native());
    if (number == EACCES) {
        if (auto closed = no_permission(path, R_OK)) return std::move(*closed);
    }
    if (number != ENOENT) {
        const bool exhausted = number == EMFILE || number == ENFILE;
        return {Code::io, cat(name, ": cannot be opened: ", errno_text(number),
                              exhausted ? "; raise the limit with ulimit -n" : "")};
    }
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(path, ignored);
    if (ignored) return {Code::not_found, cat(name, ": no such file")};
    return {Code::not_found, cat(name, ": a link to ", printable(target.native()),
                                 ", which does not exist (an unfinished download?)")};
}

const char* kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

// Checked before opening, because opening a pipe waits for its writer.
Result<void> require_regular(const std::filesystem::path& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return tl::unexpected(open_error(path, errno));
    if (S_ISREG(info.st_mode)) return {};
    return fail(Code::unsupported,
                cat(printable(path.native()), ": ", kind_of(info.st_mode), ", not a file"));
}

int open_retrying(const std::filesystem::path& path, int flags) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

// 0, or the errno of one aligned read at the beginning of the file.
int probe(int fd, uint32_t alignment) {
    auto buffer = PageBuffer::create(std::max<size_t>(alignment, page_size), "a probe read");
    if (!buffer) return ENOMEM;
    for (int tries = 0; tries < tries_max; ++tries) {
        const ssize_t got = pread(fd, buffer->data(), alignment, 0);
        if (got > 0) return 0;
        if (got == 0) return EINVAL;
        if (errno != EINTR && errno != EAGAIN) return errno;
    }
    return EAGAIN;
}

bool refusal(int number) {
    return number == EINVAL || number == EOPNOTSUPP || number == ENOTTY || number == ENOSYS;
}

void report_fallback(const std::filesystem::path& path, const std::string& cause) {
    const Mount mount = mount_of(path);
    log::warn_once(
        cat("direct reads: ", mount.point),
        cat(printable(mount.point), " (", printable(mount.type), ") refuses direct reads (", cause,
            "): reading through the page cache, which is slower and competes for memory"));
}

}  // namespace

Result<File> File::open(const std::filesystem::path& path, Access wanted) {
    if (auto regular = require_regular(path); !regular) {
        return tl::unexpected(std::move(regular).error());
    }
    File file;
    file.path_ = path;
    std::string cause;
    if (wanted == Access::direct) {
        file.fd_ = open_retrying(path, O_DIRECT);
        if (file.fd_ < 0 && !refusal(errno)) return tl::unexpected(open_error(path, errno));
        if (file.fd_ < 0) cause = cat("open: ", errno_text(errno));
    }
    struct stat info {};
    if (file.fd_ >= 0) {
        if (fstat(file.fd_, &info) != 0) return tl::unexpected(open_error(path, errno));
        const auto alignment = direct_alignment(file.fd_);
        file.own_alignment_ = alignment.value_or(page_size);
        if (!alignment) cause = "statx reports no usable alignment";
        if (alignment && info.st_size > 0) {
            const int number = probe(file.fd_, *alignment);
            if (number != 0 && !refusal(number)) {
                return tl::unexpected(read_error(path, 0, *alignment, 0, number));
            }
            if (number != 0) cause = cat("read: ", errno_text(number));
        }
        if (cause.empty()) file.access_ = Access::direct;
    }
    if (file.access_ == Access::buffered) {
        if (file.fd_ >= 0) ::close(file.fd_);
        file.own_alignment_ = page_size;
        file.fd_ = open_retrying(path, 0);
        if (file.fd_ < 0) return tl::unexpected(open_error(path, errno));
        if (fstat(file.fd_, &info) != 0) return tl::unexpected(open_error(path, errno));
        file.fell_back_ = wanted == Access::direct;
        // The router decides what is read next, so the kernel's readahead would only cost.
        posix_fadvise(file.fd_, 0, 0, POSIX_FADV_RANDOM);
        if (file.fell_back_) report_fallback(path, cause);
    }
    file.identity_ = identity_of(info);
    file.status_ = status_of(file.fd_, info, path);
    return file;
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      access_(other.access_),
      fell_back_(other.fell_back_),
      own_alignment_(other.own_alignment_),
      copies_alignment_(other.copies_alignment_),
      drive_(other.drive_),
      identity_(other.identity_),
      status_(other.status_),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    access_ = other.access_;
    fell_back_ = other.fell_back_;
    own_alignment_ = other.own_alignment_;
    copies_alignment_ = other.copies_alignment_;
    drive_ = other.drive_;
    identity_ = other.identity_;
    status_ = other.status_;
    path_ = std::move(other.path_);
    return *this;
}

File::~File() {
    if (fd_ >= 0) ::close(fd_);
}

Result<void> File::read_aligned(uint64_t offset, std::byte* to, uint64_t length,
                                uint64_t needed) const {
    uint64_t done = 0;
    int tries = 0;
    while (done < needed) {
        const uint64_t at = resume_at(done);
        const uint64_t piece = std::min(length - at, piece_max);
        const ssize_t got = pread(fd_, to + at, piece, static_cast<off_t>(offset + at));
        const int number = got < 0 ? errno : 0;
        if (got > 0 && at + static_cast<uint64_t>(got) > done) {
            done = at + static_cast<uint64_t>(got);
            tries = 0;
            continue;
        }
        const bool again = number == EINTR || number == EAGAIN || got > 0;
        if (!again || ++tries > tries_max) {
            return tl::unexpected(read_error(path_, offset, needed, done, number));
        }
    }
    return {};
}

Result<void> File::read(uint64_t offset, void* to, uint64_t length) const {
    if (offset > size() || length > size() - offset) {
        return fail(Code::corrupt,
                    cat(printable(path_.native()), ": ", length, " bytes wanted at offset ", offset,
                        ", but the file has only ", size()));
    }
    auto* out = static_cast<std::byte*>(to);
    const uint64_t alignment = own_alignment_;
    const bool aligned = ((offset | length | reinterpret_cast<uintptr_t>(to)) % alignment) == 0;
    if (access_ == Access::buffered || aligned) {
        auto result = read_aligned(offset, out, length, length);
        forget(offset, length);
        return result;
    }
    const uint64_t begin = round_down(offset, alignment);
    const uint64_t end = round_up(offset + length, alignment);
    const uint64_t bounce_size = std::min(end - begin, round_up(bounce_bytes, alignment));
    auto bounce = PageBuffer::create(bounce_size, "reading a file");
    if (!bounce) return within(printable(path_.native()), std::move(bounce).error());
    for (uint64_t at = begin; at < end; at += bounce_size) {
        const uint64_t piece = std::min(bounce_size, end - at);
        const uint64_t needed = std::min(piece, offset + length - at);
        auto result = read_aligned(at, bounce->data(), piece, needed);
        if (!result) return result;
        const uint64_t skip = at < offset ? offset - at : 0;
        std::memcpy(out, bounce->data() + skip, needed - skip);
        out += needed - skip;
    }
    return {};
}

uint64_t File::resume_at(uint64_t done) const {
    // The file's own alignment, so that fewer bytes than a block of its copies are progress, too.
    return access_ == Access::direct ? round_down(done, own_alignment_) : done;
}

void File::raise_alignment(uint32_t least) {
    assert(std::has_single_bit(least));
    copies_alignment_ = std::max(copies_alignment_, least);
}

void align_copies(std::span<File* const> copies) {
    uint32_t largest = 1;
    for (const File* file : copies) largest = std::max(largest, file->alignment());
    for (File* file : copies) file->raise_alignment(largest);
}

Result<bool> File::unchanged() const {
    struct stat info {};
    if (fstat(fd_, &info) == 0 && identity_of(info) == identity_) {
        const FileStatus now = status_of(fd_, info, path_);
        const bool renamed = now.links != status_.links || now.named != status_.named;
        const bool touched = now.touched_ns != status_.touched_ns && !renamed;
        status_ = now;
        return !touched;
    }
    return fail(Code::corrupt,
                cat(printable(path_.native()),
                    ": the file changed while it was in use, so results may be wrong; "
                    "start again"));
}

void File::forget(uint64_t offset, uint64_t length) const {
    if (!fell_back_) return;
    posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
}

Error read_error(const std::filesystem::path& path, uint64_t offset, uint64_t wanted, uint64_t got,
                 int number) {
    std::string cause = "the file ends early: it was truncated after it was opened";
    if (number == 0) {
        cause += cat("; download ", printable(path.filename().native()), " again, or restore it");
    } else {
        cause = errno_text(number);
    }
    if (number == EIO) {
        cause += ": storage error; downloading again will not help, see dmesg";
    }
    return {number == 0 ? Code::corrupt : Code::io,
            cat(printable(path.native()), ": read at offset ", offset, ": wanted ", wanted,
                " bytes, got ", got, ": ", cause)};
}

Result<std::string> read_text(const std::filesystem::path& path, uint64_t limit) {
    auto file = File::open(path, Access::buffered);
    if (!file) return tl::unexpected(std::move(file).error());
    if (file->size() > limit) {
        return fail(Code::corrupt, cat(printable(path.native()), ": ", size_text(file->size()),
                                       ", but at most ", size_text(limit), " is allowed"));
    }
    std::string text(file->size(), '\0');
    auto read = file->read(0, text.data(), text.size());
    if (!read) return tl::unexpected(std::move(read).error());
    return text;
}

}  // namespace sluice
