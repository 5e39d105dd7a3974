// Time that passes only when somebody waits for it.
#pragma once

#include "io/clock.h"
#include "io/ring/ring_paced.h"

namespace sluice {

// The engine owns its clock; the test keeps a pointer.
class SimClock final : public PaceClock {
 public:
    Time now() override { return time_; }
    void wait_until(Time time) override {
        if (time > time_) time_ = time;
    }
    void pass(double seconds) { wait_until(time_ + span(seconds)); }
    double seconds() const { return to_seconds(time_.time_since_epoch()); }

 private:
    static Clock::duration span(double seconds) {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    }
    Time time_{};
};

}  // namespace sluice
