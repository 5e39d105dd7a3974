// Stop strings in a stream of text pieces: nothing of a stop string is ever let out, whatever the
// pieces it comes in.
//
// Works on bytes, so a stop may begin or end anywhere. Of several stops the one whose match ends
// first counts; of those that end together the longest. Linear in the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

class StopMatcher {
 public:
    static constexpr size_t stops_max = 16;
    // usage: an empty stop, or more than stops_max.
    static Result<StopMatcher> create(std::vector<std::string> stops);

    // The text that may be shown now. Once stopped() it is always empty.
    std::string push(std::string_view piece);
    // What was held back, when the stream ends without a stop.
    std::string finish();
    bool stopped() const { return !match_.empty(); }
    const std::string& match() const { return match_; }  // the stop string found

 private:
    struct State {
        std::string stop;
        std::vector<size_t> borders;  // of each prefix: its longest proper border
        size_t length = 0;            // of the prefix matched so far
    };
    std::vector<State> states_;
    std::string held_;
    std::string match_;
};

}  // namespace sluice
