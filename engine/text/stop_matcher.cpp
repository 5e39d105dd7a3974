#include "engine/text/stop_matcher.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {

namespace {

// Knuth, Morris and Pratt: how much of a match is still good after a mismatch.
std::vector<size_t> borders_of(const std::string& text) {
    std::vector<size_t> borders(text.size() + 1, 0);
    for (size_t i = 1, length = 0; i < text.size(); ++i) {
        while (length > 0 && text[i] != text[length]) length = borders[length];
        if (text[i] == text[length]) ++length;
        borders[i + 1] = length;
    }
    return borders;
}

}  // namespace

Result<StopMatcher> StopMatcher::create(std::vector<std::string> stops) {
    if (stops.size() > stops_max) {
        return fail(Code::usage, cat("--stop: ", stops.size(), " strings, at most ",
                                     size_t{stops_max}, " are allowed"));
    }
    StopMatcher matcher;
    for (auto& stop : stops) {
        if (stop.empty()) return fail(Code::usage, "--stop: the string is empty");
        auto borders = borders_of(stop);
        matcher.states_.push_back({std::move(stop), std::move(borders), 0});
    }
    return matcher;
}

std::string StopMatcher::push(std::string_view piece) {
    std::string out;
    for (char c : piece) {
        if (stopped()) break;
        held_ += c;
        size_t keep = 0;
        for (auto& state : states_) {
            while (state.length > 0 && state.stop[state.length] != c)
                state.length = state.borders[state.length];
            if (state.stop[state.length] == c) ++state.length;
            if (state.length == state.stop.size()) {
                if (state.stop.size() > match_.size()) match_ = state.stop;
                state.length = state.borders[state.length];
            }
            keep = std::max(keep, state.length);
        }
        if (stopped()) keep = match_.size();
        size_t free = held_.size() - keep;
        out.append(held_, 0, free);
        held_.erase(0, free);
    }
    if (stopped()) held_.clear();
    return out;
}

std::string StopMatcher::finish() {
    std::string out = std::move(held_);
    held_.clear();
    for (auto& state : states_) state.length = 0;
    return out;
}

}  // namespace sluice
