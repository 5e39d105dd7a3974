// The text normalisation of Engram: tokens whose texts become equal share a compressed id
// (deepseek-v41.md section 3.8).
#pragma once

#include <string>
#include <string_view>

namespace sluice {

// NFKC, NFD, marks removed (all of Unicode category M), lowercase, runs of space, tab, CR and LF
// replaced by one space, white space stripped at both ends (a lone space stays). Requires UTF-8.
// The result may be empty.
std::string normalise_for_engram(std::string_view text);

}  // namespace sluice
