// Whether a path can be accessed: "does not exist" and "no permission to look" are different
// errors.
#pragma once

#include <filesystem>
#include <optional>

#include "io/error.h"

namespace sluice {

// Both are false for a dangling link, and where permission is missing: call no_permission() before
// reporting a path as missing.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
// Does not follow a link at `path`. True where permission is missing, so that opening the path
// reports the error.
bool is_entry(const std::filesystem::path& path);

// The error (io) if permission is missing: to enter a folder on the way to `path`, which is named,
// or to use `path` itself as `wanted` says (R_OK: read or list, X_OK: enter). nullopt if nothing is
// denied, whether `path` exists or not.
std::optional<Error> no_permission(const std::filesystem::path& path, int wanted = 0);

}  // namespace sluice
