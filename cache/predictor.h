// Who comes next: guesses for the next layer's experts, and whether guessing pays.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// One layer step as predictors (and route files) see it.
struct RouteStep {
    int32_t layer;
    std::span<const int32_t> chosen;        // by this layer's router, router order
    std::span<const int32_t> next_guesses;  // next layer's router applied to this layer's state,
                                            // best first; may be empty
};

class Predictor {
 public:
    virtual ~Predictor() = default;
    // After layer `step.layer` was routed: the guesses for layer + 1, best first, at most `limit`,
    // into `out`.
    virtual void predict(const RouteStep& step, size_t limit, std::vector<int32_t>& out) = 0;
    virtual void token_passed() {}
};
// "router" (the default: trusts next_guesses), "repeat" (what the next layer chose for the last
// token), "none".
Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name, int32_t layers);
std::vector<std::string> predictor_names();

// Of `seconds`, how long the drives that hold the next layer's experts had nothing to read: the
// mean of those idle times, since each drive serves some layers alone. `busy_s`: of each drive;
// `drives_per_layer`: on how many of them a layer's experts are, in the mean. A drive that serves
// every second layer is idle twice as long for each of them, but no longer than a layer takes.
double idle_for_guesses(double seconds, std::span<const double> busy_s, double drives_per_layer);

// Decides how many guesses a layer to follow (0..4), from what they gain and cost.
//
// It begins with none, learns how long a token takes without guesses as a function of what it has
// to read, and holds every token with guesses against that. Guesses are tried only where the
// measured idle time of the drive and the layer's precision promise a gain, and only as long as
// what trials have cost so far stays below half a percent of the time; a setting that does not gain
// is left at once and tried again ever more rarely. So a run is never noticeably slower than one
// without guesses. Deterministic in its inputs, but those include time: it may change speed, never
// output.
class PrefetchGovernor {
 public:
    static constexpr uint32_t guesses_max = 4;

    // `piece`: of an expert's read, what is in flight at the least and cannot be called back.
    explicit PrefetchGovernor(int32_t layers, uint32_t most = guesses_max, double piece = 1);
    ~PrefetchGovernor();
    // Of the token that runs: whether guesses for `layer` are to be made (to be followed, or only
    // to be judged), and how many to follow.
    bool wants_guesses(int32_t layer) const;
    uint32_t guesses_for(int32_t layer) const;
    // `guesses` (at most guesses_max) were made for experts of `layer` that were not resident,
    // followed or not; bit i of `right`: the i-th best was needed.
    void observed(int32_t layer, uint32_t guesses, uint32_t right);
    struct Token {
        double seconds;
        double wait_s;    // stood still for experts
        double idle_s;    // the drives of the next layer had nothing to read
        double read_s;    // any drive had something to read
        uint64_t misses;  // experts that were read or would have been without guesses
    };
    void token_passed(const Token& token);
    bool off() const;
    uint64_t switched_off() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
