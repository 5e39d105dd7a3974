// A read-only file, opened for uncached (direct) reads where the file system allows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "io/error.h"

namespace sluice {

// Distinguishes a file from other files, and from itself after a change.
struct FileIdentity {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t size = 0;
    int64_t modified_ns = 0;
    bool operator==(const FileIdentity&) const = default;
};

// The inode's change time reveals a write whose modification time was set back (cp -p over the
// file, rsync --inplace). New links and names change it, too.
struct FileStatus {
    int64_t touched_ns = 0;
    uint64_t links = 0;
    bool named = true;  // its path still leads to it
};

enum class Access { direct, buffered };

// Owns the descriptor. Move only. For direct access, opens the file with O_DIRECT and tries one
// aligned read (some file systems refuse only that). If either is refused, the file is reopened
// buffered, and one warning per file system names mount and type. The alignment comes from
// statx(STATX_DIOALIGN), or is 4096 if unknown.
class File {
 public:
    File() = default;
    static Result<File> open(const std::filesystem::path& path, Access wanted = Access::direct);
    File(File&&) noexcept;
    File& operator=(File&&) noexcept;
    ~File();

    int fd() const { return fd_; }
    uint64_t size() const { return identity_.size; }
    const FileIdentity& identity() const { return identity_; }
    const std::filesystem::path& path() const { return path_; }
    Access access() const { return access_; }
    // Which of the model's drives it is on: the number of the folder in which it was found.
    uint32_t drive() const { return drive_; }
    void set_drive(uint32_t drive) { drive_ = drive; }
    // What reads are planned with: the alignment of offset, length and memory, a power of two. It
    // is the file's own alignment, or that of its coarsest copy (align_copies), so that a read
    // planned for one copy can be served by all.
    uint32_t alignment() const { return std::max(own_alignment_, copies_alignment_); }
    uint32_t own_alignment() const { return own_alignment_; }
    // Makes alignment() at least `least`, a power of two. No read may be in flight.
    void raise_alignment(uint32_t least);

    // Reads exactly `length` bytes at `offset`, of any alignment, through a bounce buffer where
    // O_DIRECT needs one. Continues after EINTR and short reads; reads at most 1 GiB at a time. For
    // headers and tools; the engine reads through ReadRing.
    Result<void> read(uint64_t offset, void* to, uint64_t length) const;

    // Where a read that stopped after `done` bytes continues: if direct, at the beginning of the
    // block in which it stopped.
    uint64_t resume_at(uint64_t done) const;

    // Fails (corrupt) if size or modification time have changed since open(), so that what was read
    // may be a mixture of two files. False if only the inode was changed since the last call, and
    // not by a new link or name: it may have been a write or only new attributes. One thread at a
    // time.
    Result<bool> unchanged() const;

    // Call after a read: removes the range from the page cache if direct access was wanted but not
    // possible. Otherwise does nothing.
    void forget(uint64_t offset, uint64_t length) const;

 private:
    Result<void> read_aligned(uint64_t offset, std::byte* to, uint64_t length,
                              uint64_t needed) const;

    int fd_ = -1;
    Access access_ = Access::buffered;
    bool fell_back_ = false;
    uint32_t own_alignment_ = 4096;
    uint32_t copies_alignment_ = 0;
    uint32_t drive_ = 0;
    FileIdentity identity_;
    mutable FileStatus status_;  // when last checked
    std::filesystem::path path_;
};

// Call for files with the same bytes as soon as they are open: alignment() of each becomes the
// largest of all, so that any of them can serve a read, at first or after another has failed.
void align_copies(std::span<File* const> copies);

// The error of a failed read: file, offset, bytes wanted and got, and what `number` (an errno; 0:
// the file ended) means and what to do.
Error read_error(const std::filesystem::path& path, uint64_t offset, uint64_t wanted, uint64_t got,
                 int number);

// The whole content of a small file (config.json, the index). Fails if it is larger than `limit`.
Result<std::string> read_text(const std::filesystem::path& path, uint64_t limit);

}  // namespace sluice
