// How experts are best read from the drives at hand: measured once with the engine's own reader on
// the model's own files, and remembered.
//
// In how many parts an expert's ranges are cut and how many experts are read at once changes speed
// alone, never a result.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/options.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/expert_map.h"
#include "io/error.h"
#include "io/ring/ring.h"

namespace sluice {

struct TrialPlan {
    std::vector<ExpertTuning> candidates;  // the default first
    uint32_t burst = 6;                    // experts of a token's layer
    bool sweeps = false;                   // also kept busy, as by a prompt
    int rounds = 2;                        // in turns, so that all see the same drive
    double seconds = 0.1;                  // one measurement
    double limit_s = 1.8;                  // all of them; a round that was not finished counts not
    const std::atomic<bool>* cancel = nullptr;
};

struct TrialResult {
    ExpertTuning tuning;  // the default unless another was faster by 3 % or more in every round
    double bytes_s = 0;   // its rate, the median of the rounds; 0: not one round was finished
};

// `memory`: slots to read into, known to the ring. Leaves the map tuned to the result.
Result<TrialResult> try_tunings(const TrialPlan& plan, ExpertMap& map, ReadRing& ring,
                                std::span<std::byte> memory);

// The decisions around it: whether to measure, what is remembered. `direct`: the files bypass the
// page cache. A note says in one line what was chosen and why.
struct Calibration {
    ExpertTuning tuning;
    double bytes_s = 0;  // of the drives together; 0: not known
    std::string note;
};
// What the cache folder keeps of one, and back: nothing unless it is exactly such a text, with a
// tuning out of the range tried and a finite rate above 0.
std::string calibration_text(const Calibration& calibration);
std::optional<Calibration> parse_calibration(std::string_view text, ExpertTuning tuning);

Result<Calibration> calibrate(const Checkpoint& checkpoint, const EngineOptions& options,
                              bool direct, uint32_t burst, ExpertMap& map, ReadRing& ring,
                              std::span<std::byte> memory, const std::atomic<bool>* cancel);

}  // namespace sluice
