// Where a run may leave a file that the user named.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// The file behind `path`, links followed. Refused (usage, naming `flag`): a folder, a pipe or a
// device; a folder that is missing or cannot be written to; a file that is there, has bytes and
// does not begin as its kind does (`head`), such as one of a model's. Cheap: asked before the work
// whose result the file is to hold.
Result<std::filesystem::path> output_file(std::string_view flag, const std::filesystem::path& path,
                                          std::string_view head);

// A file that grows beside `path`, under a name that nobody has, and takes that name when it is
// whole. What had the name stays until then. Not kept, it is removed.
class GrowingFile {
 public:
    static Result<GrowingFile> create(const std::filesystem::path& path, mode_t mode);
    GrowingFile(GrowingFile&& other) noexcept;
    GrowingFile& operator=(GrowingFile&&) = delete;
    ~GrowingFile();
    // Not buffered: whoever looks finds it. After a failure (io) nothing more is written, and it is
    // not kept.
    Result<void> append(std::string_view bytes);
    // fsync, rename; again does nothing.
    Result<void> keep();

 private:
    GrowingFile() = default;
    Result<void> failed();

    std::filesystem::path path_;
    std::string name_;  // where it grows; empty: kept or removed
    int fd_ = -1;
    int cause_ = 0;  // the errno of a failure
};

// Whole or not at all, see GrowingFile.
Result<void> write_file_whole(const std::filesystem::path& path, std::string_view bytes,
                              mode_t mode = 0600);

}  // namespace sluice
