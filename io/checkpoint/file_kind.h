// Tells what a file really is when its content does not match its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr uint64_t file_kind_bytes = 512;  // from the start of the file, enough to tell

// Recognises, by its first bytes (`head`, up to file_kind_bytes), a file of `size` bytes that is a
// git-lfs pointer, an HTML page, ZIP, GGUF, gzip or similar data, or all zeros. Returns a phrase to
// follow "is" or "but", with what to do: "a git-lfs pointer for a file of 5.0 GiB, ...". Empty if
// nothing is recognised.
std::string describe_file_kind(std::string_view head, uint64_t size);

}  // namespace sluice
