// A read-only file opened for uncached reads where the file system allows it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "io/error.h"

namespace sluice {

// What tells this file from another, or from itself after a change.
struct FileIdentity {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t size = 0;
    int64_t modified_ns = 0;
    bool operator==(const FileIdentity&) const = default;
};

// The time of a file's inode tells of a write whose own time was put back (cp -p over the file,
// rsync --inplace). Links and names move it, too.
struct FileStatus {
    int64_t touched_ns = 0;
    uint64_t links = 0;
    bool named = true;  // its path leads to it
};

enum class Access { direct, buffered };

// Owns the descriptor. Move only. Opened O_DIRECT when asked for, then proved by one aligned read
// (some file systems refuse only there); where that fails the file is reopened buffered, and one
// line per file system names mount and type. Alignment from statx(STATX_DIOALIGN), 4096 if not
// told.
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
    // Which of the model's drives it is on: the number of the folder it was found in.
    uint32_t drive() const { return drive_; }
    void set_drive(uint32_t drive) { drive_ = drive; }
    // What reads are planned with, of offset, length and memory; a power of two. It is the file's
    // own, or that of its coarsest copy (align_copies): what is planned for one of them, all can
    // serve.
    uint32_t alignment() const { return std::max(own_alignment_, copies_alignment_); }
    uint32_t own_alignment() const { return own_alignment_; }
    // Plans reads for `least` from now on, a power of two. None may be in flight.
    void raise_alignment(uint32_t least);

    // Reads exactly `length` bytes at `offset`, any alignment, through a bounce buffer where
    // O_DIRECT needs one. EINTR and short reads are gone on with; pieces of at most 1 GiB. For
    // headers and tools; the engine's reads go through ReadRing.
    Result<void> read(uint64_t offset, void* to, uint64_t length) const;

    // Where a read that stopped after `done` bytes goes on: a direct one at the front of the block
    // it stopped in.
    uint64_t resume_at(uint64_t done) const;

    // corrupt: its size or time of change is no longer that of open(), so what was read since may
    // be of two files. False: only its inode was touched since the last call, and not by a link or
    // a name; nobody can tell a write from new attributes then. One thread at a time.
    Result<bool> unchanged() const;

    // After a read: takes the range out of the page cache, where a read that was meant to be direct
    // had to go through it. Otherwise nothing.
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
    mutable FileStatus status_;  // at the last look
    std::filesystem::path path_;
};

// For files with the same bytes, as soon as they are known: alignment() of each becomes the largest
// of all, so that any of them can serve a read, from the start or after another has failed.
void align_copies(std::span<File* const> copies);

// How a read failed: file, offset, wanted, got, and what `number` (an errno; 0: the file ended)
// means and calls for.
Error read_error(const std::filesystem::path& path, uint64_t offset, uint64_t wanted, uint64_t got,
                 int number);

// Whole small file as text (config.json, index). Fails above `limit` bytes.
Result<std::string> read_text(const std::filesystem::path& path, uint64_t limit);

}  // namespace sluice
