// Who leaves when a slot is needed. A policy sees slots, keys and time in token steps, never bytes.
//
// The live cache and the simulator drive the same classes. Deterministic: same calls, same victims.
// A new policy is a class in policies.cpp and a line in its table.
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
    // `wanted` is the key that needs the room.
    virtual int64_t victim(const std::function<bool(uint32_t slot)>& evictable,
                           ExpertKey wanted) = 0;
};

struct PolicyOptions {
    uint32_t slots;
    int32_t layers;
    uint64_t seed = 0;
};

// "aging-lru" (the default), "lru", "lfu", "slru", "layer-lru". Unknown: usage error listing the
// names.
Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options);
std::vector<std::string> policy_names();

}  // namespace sluice
