// The text normalisation under which tokens share an Engram number.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// NFKC, NFD, combining marks removed, lowercase, runs of space, tab, CR and LF to one space, white
// space stripped at both ends (a lone space stays). Requires UTF-8. May be empty.
std::string normalise_for_engram(std::string_view text);

}  // namespace sluice
