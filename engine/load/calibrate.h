// Finds the fastest way to read experts from the present drives: measured once with the engine's
// own reader on the model's own files, and remembered.
//
// The number of parts that each range of an expert is cut into and the number of experts read at
// once change only speed, never a result.
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
    uint32_t burst = 6;                    // experts that a token uses per layer
    bool prompts = false;                  // also with all slots busy, as in a prompt
    int rounds = 2;                        // candidates take turns, so that all see the same drive
    double seconds = 0.1;                  // per measurement
    double limit_s = 1.8;                  // in total; an unfinished round does not count
    const std::atomic<bool>* cancel = nullptr;
};

struct TrialResult {
    ExpertTuning tuning;  // the default unless another was faster by 3 % or more in every round
    double bytes_s = 0;   // its median rate; 0: no round was finished
};

// `memory`: slots to read into, registered with the ring. Leaves the map tuned to the result.
Result<TrialResult> try_tunings(const TrialPlan& plan, ExpertMap& map, ReadRing& ring,
                                std::span<std::byte> memory);

// The decision around it: measure, or use what was measured before.
struct Calibration {
    ExpertTuning tuning;
    double bytes_s = 0;  // of all drives together; 0: unknown
    std::string note;    // one line: what was chosen and why
};
// The text that the cache folder keeps, and back: nothing unless the whole text has this form, the
// tuning is in the range that is tried and the rate is finite and above 0.
std::string calibration_text(const Calibration& calibration);
std::optional<Calibration> parse_calibration(std::string_view text, ExpertTuning tuning);

// `direct`: the files bypass the page cache. `memory` as for try_tunings(); `burst` as in
// TrialPlan; `cancel` may be null.
Result<Calibration> calibrate(const Checkpoint& checkpoint, const EngineOptions& options,
                              bool direct, uint32_t burst, ExpertMap& map, ReadRing& ring,
                              std::span<std::byte> memory, const std::atomic<bool>* cancel);

}  // namespace sluice
