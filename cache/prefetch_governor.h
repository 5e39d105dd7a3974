// Decides how many guesses per layer a decode step prefetches (0 to 4), from what they gain and
// cost.
//
// It begins with none and learns how long a token takes without prefetching, as a function of what
// it has to read. Every token with prefetching is compared with that. A setting is tried only where
// the measured idle time of the drives and the precision of the layer's guesses promise a gain, and
// only while the trials have cost less than half a percent of all time. A setting that does not
// gain is left at once and tried again ever more rarely, so a run is never noticeably slower than
// one without prefetching.
//
// Deterministic in its inputs, but those include time: it may change speed, never output. Engine
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace sluice {

// How long the drives that hold the next layer's experts had nothing to read during `seconds`:
// the mean of their idle times, since each of them serves some layers alone. `busy_s`: per drive;
// `drives_per_layer`: how many drives hold experts of one layer, on average. A drive that serves
// every second layer is idle twice as long for each of them, but no longer than a layer takes.
double idle_for_guesses(double seconds, std::span<const double> busy_s, double drives_per_layer);

class PrefetchGovernor {
 public:
    static constexpr uint32_t guesses_max = 4;

    // `most`: never follows more guesses per layer than this. `piece`: the smallest share of an
    // expert's read that is in flight and cannot be cancelled.
    explicit PrefetchGovernor(int32_t layers, uint32_t most = guesses_max, double piece = 1);
    ~PrefetchGovernor();

    // For the current token: whether to make guesses for `layer` (to prefetch them, or only to see
    // whether they are right), and how many to prefetch.
    bool wants_guesses(int32_t layer) const;
    uint32_t guesses_for(int32_t layer) const;
    // `guesses` (at most guesses_max) were made for experts of `layer` that were not resident,
    // prefetched or not. Bit i of `right`: the i-th best one was needed.
    void observed(int32_t layer, uint32_t guesses, uint32_t right);

    struct Token {
        double seconds;
        double wait_s;    // the engine waited for experts
        double idle_s;    // idle_for_guesses()
        double read_s;    // any drive had something to read
        uint64_t misses;  // experts that were read, or would have been without prefetching
    };
    void token_passed(const Token& token);

    bool off() const;               // prefetches nothing, except for trials
    uint64_t switched_off() const;  // how often a setting was given up for none

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
