// Snapshots as files, so that they outlive the process; several processes may share the folder.
//
//   FOLDER/KIND/TOKENS-HASH.snapshot
//
// KIND is Session::snapshot_kind(): only files of its own kind are looked at. There is no index;
// the names say what is there. A file is written under a temporary name and renamed, so a process
// that is killed at any moment leaves complete files and at most one unfinished one, which is
// removed once nobody has written to it for an hour. The size limit holds for all kinds together;
// the file that was used or written longest ago goes first, by its modification time. Only files
// with such names are ever removed, and only folders that belong to this user are used.
//
// write() may be called by another thread than the rest. What goes wrong with the folder is warned
// of once, and is otherwise as if a file were not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/prompt_cache/snapshot_key.h"
#include "engine/snapshot/snapshot_file.h"
#include "io/error.h"

namespace sluice {

class DiskSnapshots {
 public:
    // Makes the folders, mode 0700, when the first file is written.
    DiskSnapshots(std::filesystem::path folder, std::string kind, uint64_t bytes_max);

    std::vector<SnapshotKey> keys() const;
    // `accept` may refuse it before its contents are read. Errors as in read_snapshot_file().
    Result<SnapshotBytes> read(
        SnapshotKey key, const std::function<Result<void>(const SnapshotHeader&)>& accept) const;
    // Marks it as used just now; false if there is none.
    bool use(SnapshotKey key) const;
    void remove(SnapshotKey key) const;

    // Returns once the file is complete; then removes what is over the limit. False: not written.
    bool write(SnapshotKey key, const SnapshotBytes& snapshot) const;

    std::filesystem::path path(SnapshotKey key) const;
    const std::filesystem::path& folder() const { return folder_; }
    uint64_t bytes_max() const { return bytes_max_; }

 private:
    Result<void> make_folders() const;
    void trim(const std::filesystem::path& written) const;

    std::filesystem::path folder_, own_;  // own_: of this kind
    uint64_t bytes_max_;
};

}  // namespace sluice
