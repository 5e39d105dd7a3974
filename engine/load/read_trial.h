// Measures how fast experts can be read: the engine's own reader on the model's own files, without
// computing anything.
#pragma once

#include <atomic>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "io/checkpoint/expert_reader.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

class ReadTrial {
 public:
    // `memory` is cut into as many slots as it holds and is registered with the ring. All arguments
    // outlive the trial, and the map is not retuned meanwhile. `cancel` may be null.
    ReadTrial(const ExpertMap& map, ReadRing& ring, std::span<std::byte> memory,
              const std::atomic<bool>* cancel = nullptr);

    // Reads random experts for at least `seconds`; returns bytes per second. With `burst` > 0 that
    // many are requested and awaited at a time, as for a layer in decode; with 0 all slots are kept
    // busy, as in a prompt.
    Result<double> measure(uint32_t burst, double seconds);

 private:
    void ask();
    Result<void> collect();

    const ExpertMap& map_;
    ReadRing& ring_;
    const std::atomic<bool>* cancel_;
    ExpertReader reader_;
    std::vector<std::byte*> free_;
    std::mt19937_64 random_{2};
};

}  // namespace sluice
