// Small results remembered between runs: one file each in the cache folder, named by kind and a
// checksum of the identity, the text that says what the result depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; empty when neither is set.
std::string cache_folder();

// For messages: why a result cannot be kept, and what chooses another folder.
std::string not_remembered();

// What was kept for `identity` (one line), or nothing. The file holds the whole identity, so that
// neither a checksum that collides nor a truncated file is taken for it.
// `text_max`: a larger file is none of ours.
std::optional<std::string> recall(std::string_view kind, std::string_view identity,
                                  uint64_t text_max = 4096);
// False if it cannot be kept. `text` is one line, or empty.
bool remember(std::string_view kind, std::string_view identity, std::string_view text);

}  // namespace sluice
