// What a file really is when it is not what its name says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

inline constexpr uint64_t foreign_head_bytes = 512;

// Judges by the first bytes (up to foreign_head_bytes) of a file of `size` bytes: a git-lfs
// pointer (with the size that it stands for), an HTML page, ZIP, GGUF, gzip and others, zeros only.
// Says it as the object of "is": "a git-lfs pointer for a file of 5.0 GiB, ...", with what to do.
// Empty when nothing is recognised.
std::string describe_foreign(std::string_view head, uint64_t size);

}  // namespace sluice
