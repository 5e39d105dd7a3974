// Whether a path can be reached: "it is not there" and "you may not look" are different answers.
#pragma once

#include <filesystem>
#include <optional>

#include "io/error.h"

namespace sluice {

// A link to nowhere is not there. Where permission is missing both say no: ask no_permission()
// before calling that absent.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);
// Of the link itself; yes where permission is missing, so that opening it tells.
bool is_entry(const std::filesystem::path& path);

// The error (io) where permission is missing: on the way to `path`, naming the folder that may not
// be entered, or for `path` itself to do what `wanted` says (R_OK: read or list, X_OK: enter).
// Nothing where there is no such obstacle, whether `path` is there or not.
std::optional<Error> no_permission(const std::filesystem::path& path, int wanted = 0);

}  // namespace sluice
