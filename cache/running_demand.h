// The demand that the expert cache is serving, as the parts of the cache see it.
#pragma once

#include <cstdint>

namespace sluice {

struct RunningDemand {
    uint64_t number = 0;  // increases by one per demand; 0: none yet
    int32_t layer = -1;
    bool more = false;  // another chunk of the group will come to this layer
};

}  // namespace sluice
