// Where a run may leave a file that the user named.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "io/error.h"

namespace sluice {

// The file behind `path`, links followed. Refused (usage, naming `flag`): a folder, a pipe or a
// device; a folder that is missing or cannot be written to; a file that is there, has bytes and
// does not begin as its kind does (`head`), such as one of a model's. Cheap: asked before the work
// whose result the file is to hold.
Result<std::filesystem::path> output_file(std::string_view flag, const std::filesystem::path& path,
                                          std::string_view head);

// Whole or not at all: a file under a name that nobody has beside it, fsync, rename.
Result<void> write_file_whole(const std::filesystem::path& path, std::string_view bytes,
                              mode_t mode = 0600);

}  // namespace sluice
