// PrefetchGovernor: how many guesses to follow, found out by trying.
#include <algorithm>
#include <array>
#include <vector>

#include "cache/predictor.h"

namespace sluice {
namespace {

constexpr uint32_t window = 8;     // tokens measured at one setting
constexpr uint32_t settling = 2;   // tokens ignored after a change
constexpr uint32_t rest_min = 16;  // tokens between two trials, doubled while nothing changes
constexpr uint32_t rest_max = 1024;
constexpr double gain_min = 0.01;         // of a token's time, for more guesses to be worth it
constexpr double waiting_min = 0.01;      // of a token's time: less waiting cannot be won back
constexpr double precision_start = 0.5;   // of a layer nobody knows
constexpr double precision_full = 0.35;   // from here on a layer follows all guesses,
constexpr double precision_half = 0.15;   // from here on half of them, below none
constexpr double precision_rate = 0.05;   // weight of the newest observation
constexpr double forgiving_rate = 0.002;  // way back to precision_start, a token not followed

class Window {
 public:
    void clear() { count_ = 0; }
    void add(double value) { values_[count_++] = value; }
    bool full() const { return count_ == window; }
    double median() {
        std::sort(values_.begin(), values_.begin() + count_);
        return (values_[(count_ - 1) / 2] + values_[count_ / 2]) / 2;
    }

 private:
    std::array<double, window> values_;
    uint32_t count_ = 0;
};

}  // namespace

// Rest at the current setting; then measure it, another one, and it again; keep the better. Medians
// of whole token times decide, so whatever a guess costs anywhere counts against it. The current
// setting is measured on both sides of the trial, because a conversation drifts.
struct PrefetchGovernor::Impl {
    enum class Phase { rest, before, trial, after };

    Impl(int32_t layers, uint32_t most_guesses)
        : most(std::min<uint32_t>(most_guesses, 4)),
          setting(std::min<uint32_t>(most, 2)),
          active(setting),
          precision(static_cast<size_t>(layers), precision_start),
          followed(static_cast<size_t>(layers), false) {}

    void begin(Phase next, uint32_t guesses) {
        skip = guesses == active ? 0 : settling;
        phase = next;
        active = guesses;
        times.clear();
        waits.clear();
    }
    // Fewer, then more, then none, as far as they differ from the current setting.
    uint32_t next_candidate() {
        for (int i = 0; i < 3; ++i) {
            turn = (turn + 1) % 3;
            const std::array<uint32_t, 3> all = {setting == 0 ? 0 : setting - 1,
                                                 std::min(setting + 1, most), 0};
            if (all[turn] != setting) return all[turn];
        }
        return setting;
    }
    void decide(double after) {
        const double current = (before_s + after) / 2;
        const bool more = candidate > setting;
        const bool adopt = more ? trial_s < current * (1 - gain_min) : trial_s <= current;
        rest_tokens = adopt ? rest_min : std::min(rest_tokens * 2, rest_max);
        if (adopt) {
            if (candidate == 0) ++times_off;
            setting = candidate;
        }
        rested = 0;
        begin(Phase::rest, setting);
    }
    void measured() {
        const double time = times.median();
        const double wait = waits.median();
        switch (phase) {
            case Phase::rest:
                break;
            case Phase::before:
                before_s = time;
                candidate = next_candidate();
                if (candidate == setting || (candidate > setting && wait < waiting_min * time)) {
                    rested = 0;
                    begin(Phase::rest, setting);
                } else {
                    begin(Phase::trial, candidate);
                }
                break;
            case Phase::trial:
                trial_s = time;
                begin(Phase::after, setting);
                break;
            case Phase::after:
                decide(time);
                break;
        }
    }

    uint32_t most, setting, active;  // active: setting, or the candidate during a trial
    std::vector<double> precision;
    std::vector<bool> followed;  // in this token
    Phase phase = Phase::rest;
    uint32_t skip = 0, rested = 0, rest_tokens = rest_min, turn = 2, candidate = 0;
    Window times, waits;
    double before_s = 0, trial_s = 0;
    uint64_t times_off = 0;
};

PrefetchGovernor::PrefetchGovernor(int32_t layers, uint32_t most)
    : impl_(std::make_unique<Impl>(layers, most)) {}
PrefetchGovernor::~PrefetchGovernor() = default;

uint32_t PrefetchGovernor::guesses_for(int32_t layer) const {
    const double precision = impl_->precision[static_cast<size_t>(layer)];
    if (precision >= precision_full) return impl_->active;
    return precision >= precision_half ? (impl_->active + 1) / 2 : 0;
}

void PrefetchGovernor::observed(int32_t layer, uint32_t followed, uint32_t used) {
    if (followed == 0) return;
    double& precision = impl_->precision[static_cast<size_t>(layer)];
    const double now = std::min(1.0, static_cast<double>(used) / followed);
    precision += (now - precision) * precision_rate;
    impl_->followed[static_cast<size_t>(layer)] = true;
}

void PrefetchGovernor::token_passed(double wait_s, double token_s) {
    Impl& impl = *impl_;
    for (size_t layer = 0; layer < impl.precision.size(); ++layer) {
        double& precision = impl.precision[layer];
        if (!impl.followed[layer] && precision < precision_start) {
            precision += (precision_start - precision) * forgiving_rate;
        }
        impl.followed[layer] = false;
    }
    if (impl.most == 0) return;
    if (impl.phase == Impl::Phase::rest) {
        if (++impl.rested >= impl.rest_tokens) impl.begin(Impl::Phase::before, impl.setting);
        return;
    }
    if (impl.skip > 0) {
        --impl.skip;
        return;
    }
    impl.times.add(token_s);
    impl.waits.add(wait_s);
    if (impl.times.full()) impl.measured();
}

bool PrefetchGovernor::off() const {
    return impl_->setting == 0;
}

uint64_t PrefetchGovernor::switched_off() const {
    return impl_->times_off;
}

}  // namespace sluice
