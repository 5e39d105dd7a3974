#include "kernels/paced_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "io/clock.h"
#include "io/text.h"
#include "kernels/forwarding_backend.h"

namespace sluice {

namespace {

// Sleeping may end this much late.
constexpr std::chrono::microseconds sleep_slack(150);

void wait_until(Clock::time_point when) {
    if (when - Clock::now() > sleep_slack) std::this_thread::sleep_until(when - sleep_slack);
    while (Clock::now() < when) std::this_thread::yield();
}

class PacedLink final : public ForwardingBackend {
 public:
    PacedLink(std::unique_ptr<Backend> device, double bytes_s)
        : ForwardingBackend(std::move(device)), bytes_s_(bytes_s) {}

    std::string name() const override {
        return cat(ForwardingBackend::name(), ", link held to ",
                   static_cast<uint64_t>(bytes_s_ / 1e6), " MB/s");
    }
    void upload_beside(void* device, const void* host, size_t bytes) override {
        ForwardingBackend::upload_beside(device, host, bytes);
        const std::chrono::duration<double> takes(static_cast<double>(bytes) / bytes_s_);
        free_at_ = std::max(free_at_, Clock::now()) + std::chrono::duration_cast<Ticks>(takes);
        upload_s_ += takes.count();
    }
    uint64_t mark_uploads() override {
        ++last_;
        of(last_) = {inner().mark_uploads(), free_at_};
        return last_;
    }
    void compute_after_uploads(uint64_t mark) override {
        if (mark == 0) return;
        wait_until(of(mark).done_at);
        inner().compute_after_uploads(of(mark).inner);
    }
    bool uploads_done(uint64_t mark) override {
        return mark == 0 ||
               (Clock::now() >= of(mark).done_at && inner().uploads_done(of(mark).inner));
    }
    Result<void> wait_uploads(uint64_t mark) override {
        if (mark == 0) return {};
        wait_until(of(mark).done_at);
        return inner().wait_uploads(of(mark).inner);
    }
    Counters counters() const override {
        Counters all = inner().counters();
        all.upload_s = upload_s_;
        return all;
    }
    void clear_counters() override {
        inner().clear_counters();
        upload_s_ = 0;
    }

 private:
    using Ticks = Clock::duration;
    struct Mark {
        uint64_t inner;
        Clock::time_point done_at;
    };
    // A mark whose place was taken by a later one is done when the later one is.
    Mark& of(uint64_t mark) { return marks_[mark % marks_.size()]; }

    double bytes_s_;
    Clock::time_point free_at_{};
    std::array<Mark, 256> marks_{};
    uint64_t last_ = 0;
    double upload_s_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_paced_link(std::unique_ptr<Backend> device, double bytes_s) {
    return std::make_unique<PacedLink>(std::move(device), bytes_s);
}

}  // namespace sluice
