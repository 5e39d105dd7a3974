// Finds stop strings in a stream of text pieces. No part of a stop string is ever let through,
// however the stream is cut into pieces.
//
// Works on bytes, so a stop string may begin or end inside a character. If several match, the one
// that ends first counts, and the longest of those that end together. Time is linear in the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

class StopMatcher {
 public:
    static constexpr size_t stops_max = 16;
    // usage: an empty stop string, or more than stops_max of them.
    static Result<StopMatcher> create(std::vector<std::string> stops);

    // The text that may be shown now; empty once stopped().
    std::string push(std::string_view piece);
    // Call when the stream ends without a stop: returns what was held back.
    std::string finish();
    bool stopped() const { return !match_.empty(); }
    const std::string& match() const { return match_; }  // the stop string found

 private:
    struct State {
        std::string stop;
        std::vector<size_t> borders;  // of each prefix: the length of its longest border
        size_t length = 0;            // of the prefix matched so far
    };
    std::vector<State> states_;
    std::string held_;
    std::string match_;
};

}  // namespace sluice
