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

// Decides how many guesses to follow (0..4), from what they gained: precision per layer, used
// against wasted reads, waiting time with and without. Switches itself off when it loses and tries
// again now and then. Deterministic in its inputs, but those include time: it may change speed,
// never output.
class PrefetchGovernor {
 public:
    explicit PrefetchGovernor(int32_t layers, uint32_t most = 2);
    ~PrefetchGovernor();
    uint32_t guesses_for(int32_t layer) const;
    void observed(int32_t layer, uint32_t followed, uint32_t used);
    void token_passed(double wait_s, double token_s);
    bool off() const;
    uint64_t switched_off() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
