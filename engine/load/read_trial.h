// How fast experts arrive: the engine's own reader on the model's own files, nothing computed.
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
    // `memory` holds as many slots as are to be read into at once; the ring knows it. All outlive
    // the trial, and the map is not retuned meanwhile. `cancel` may be null.
    ReadTrial(const ExpertMap& map, ReadRing& ring, std::span<std::byte> memory,
              const std::atomic<bool>* cancel = nullptr);

    // Bytes a second over at least `seconds`, random experts. With `burst` that many are asked for
    // and awaited, as in a token's layer; with 0 all slots are kept busy, as in a prompt sweep.
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
