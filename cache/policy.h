// Eviction policy: picks the slot to reuse. It sees slots, keys and time in token steps, never
// bytes or seconds.
//
// The live cache and the simulator use the same classes. Deterministic: the same calls give the
// same victims. A new policy is a class in policy.cpp with a line in the table at its end; tests,
// help and error texts take its name from there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/expert_map.h"
#include "io/error.h"

namespace sluice {

class Policy {
 public:
    virtual ~Policy() = default;
    virtual void inserted(uint32_t slot, ExpertKey key) = 0;
    virtual void touched(uint32_t slot, ExpertKey key) = 0;  // a hit
    virtual void removed(uint32_t slot) = 0;
    virtual void token_passed() = 0;  // the step clock
    // A slot to reuse among the inserted ones for which `evictable` holds; -1 if there is none.
    // `wanted` is the expert that needs the slot. The slot stays inserted until removed().
    virtual int64_t victim(const std::function<bool(uint32_t slot)>& evictable,
                           ExpertKey wanted) = 0;
    virtual std::string report() const { return {}; }  // what it did; empty: nothing to say
};

struct PolicyOptions {
    uint32_t slots;
    int32_t layers;
    int32_t experts;  // of a layer
    uint64_t seed = 0;
};

inline constexpr const char* default_policy = "aging-lru";

// Unknown name: usage error that lists the names.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);
std::vector<std::string> policy_names();  // default_policy first

}  // namespace sluice
