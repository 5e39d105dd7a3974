// Small results remembered between runs, in the cache folder: one file each, named by what they are
// of.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// $XDG_CACHE_HOME/sluice, else ~/.cache/sluice; empty when neither is set.
std::string cache_folder();

// For messages: why nothing is remembered, with the folder and what chooses another.
std::string not_remembered();

// What was kept for `identity` (one line), or nothing. The file holds the whole identity: a name
// that collides, or a file cut short, gives nothing.
std::optional<std::string> recall(std::string_view kind, std::string_view identity);
// False where it cannot be kept. `text` is one line, or empty.
bool remember(std::string_view kind, std::string_view identity, std::string_view text);

}  // namespace sluice
