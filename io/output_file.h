// Files that a run writes where the user asked: checking the path first, then writing atomically.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// The file behind `path`, links resolved. Refused (usage, naming `flag`): a folder, a pipe or a
// device; a missing folder; an existing file that is not empty and does not begin with `head`, as
// files of this kind do (it may be one of a model's). A permission that is missing is an io error.
// Cheap: call it before the work whose result the file will hold.
Result<std::filesystem::path> output_file(std::string_view flag, const std::filesystem::path& path,
                                          std::string_view head);

// A file that is written under a temporary name beside `path` and renamed to `path` by keep(). A
// file of that name stays as it is until then. Without keep(), the temporary file is removed.
class GrowingFile {
 public:
    static Result<GrowingFile> create(const std::filesystem::path& path, mode_t mode);
    GrowingFile(GrowingFile&& other) noexcept;
    GrowingFile& operator=(GrowingFile&&) = delete;
    ~GrowingFile();
    // Not buffered: what is appended can be read at once. After a failure (io) nothing more is
    // written, and keep() fails.
    Result<void> append(std::string_view bytes);
    // fsync and rename. Calling it again does nothing.
    Result<void> keep();

 private:
    GrowingFile() = default;
    Result<void> failed();

    std::filesystem::path path_;
    std::string name_;  // the temporary name; empty once kept
    int fd_ = -1;
    int cause_ = 0;  // errno of the first failure
};

// Writes the whole file or, on failure, nothing (see GrowingFile).
Result<void> write_file_whole(const std::filesystem::path& path, std::string_view bytes,
                              mode_t mode = 0600);

}  // namespace sluice
