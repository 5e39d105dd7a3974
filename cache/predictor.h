// Predicts which experts the next layer's router will choose.
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
    std::span<const int32_t> chosen;        // by this layer's router, in its order
    std::span<const int32_t> next_guesses;  // next layer's router applied to this layer's state,
                                            // best first; may be empty
};

class Predictor {
 public:
    virtual ~Predictor() = default;
    // After the router of layer `step.layer` has chosen: the guesses for layer + 1, best first, at
    // most `limit`, into `out`.
    virtual void predict(const RouteStep& step, size_t limit, std::vector<int32_t>& out) = 0;
    virtual void token_passed() {}
};

inline constexpr const char* default_predictor = "router";

// Unknown name: usage error that lists the names.
Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name, int32_t layers);
std::vector<std::string> predictor_names();  // default_predictor first

}  // namespace sluice
