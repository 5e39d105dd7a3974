#include "io/ring/ring_paced.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <thread>

#include "io/clock.h"
#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t bytes_s_min = 1'000, bytes_s_max = 1'000'000'000'000'000;
constexpr double latency_max = 10;                    // seconds
constexpr auto spun = std::chrono::microseconds(50);  // at the end of a wait: a sleep may overshoot
// How long to wait while a read in the inner engine may be due before those held.
constexpr auto nap = std::chrono::microseconds(200);

Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class SteadyClock final : public PaceClock {
 public:
    // For this thread, which is the one that waits: sleeps end on time, not 50 us later.
    SteadyClock() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }
    Time now() override { return Clock::now(); }
    void wait_until(Time time) override {
        if (time - Clock::now() > spun) std::this_thread::sleep_until(time - spun);
        while (Clock::now() < time) std::this_thread::yield();
    }
};

Result<double> parse_latency(std::string_view text) {
    const auto refuse = [&](const char* why) {
        return fail(Code::usage, cat("latency '", printable(text), "': ", why,
                                     " (examples: 80us, 0.1ms; at most 10s)"));
    };
    double value = 0;
    const auto [end, status] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (status != std::errc() || !std::isfinite(value) || value < 0) return refuse("not a time");
    const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
    const double scale = unit == "ns"   ? 1e-9
                         : unit == "us" ? 1e-6
                         : unit == "ms" ? 1e-3
                         : unit == "s"  ? 1
                                        : 0;
    if (scale == 0) return refuse("a unit of ns, us, ms or s must follow the number");
    if (value * scale > latency_max) return refuse("too long");
    return value * scale;
}

Result<DrivePace> parse_pace(std::string_view text) {
    const size_t comma = text.find(',');
    auto rate = parse_drive_rate(text.substr(0, comma));
    if (!rate) return tl::unexpected(std::move(rate).error());
    DrivePace pace{static_cast<double>(*rate), 0};
    if (comma == text.npos) return pace;
    auto latency = parse_latency(text.substr(comma + 1));
    if (!latency) return tl::unexpected(std::move(latency).error());
    pace.latency_s = *latency;
    return pace;
}

}  // namespace

Result<uint64_t> parse_drive_rate(std::string_view text) {
    auto bytes = parse_size(text);
    if (!bytes) return bytes;
    if (*bytes >= bytes_s_min && *bytes <= bytes_s_max) return bytes;
    return fail(Code::usage,
                cat("rate '", printable(text), "': must be 1KB to 1000TB (per second)"));
}

Result<std::vector<DrivePace>> parse_paces(std::string_view text) {
    std::vector<DrivePace> paces;
    while (true) {
        const size_t plus = text.find('+');
        auto pace = parse_pace(text.substr(0, plus));
        if (!pace) return tl::unexpected(std::move(pace).error());
        paces.push_back(*pace);
        if (plus == text.npos) return paces;
        text.remove_prefix(plus + 1);
    }
}

double paced_bytes_s(std::span<const DrivePace> paces, uint32_t drives) {
    double sum = 0;
    for (uint32_t drive = 0; drive < drives; ++drive) {
        sum += paces[paces.size() == 1 ? 0 : drive].bytes_s;
    }
    return sum;
}

std::string paces_text(std::span<const DrivePace> paces) {
    std::string out;
    for (const DrivePace& pace : paces) {
        const bool giga = pace.bytes_s >= 1e9;
        out += formatted("{}{:.4g} {}/s", out.empty() ? "" : " + ",
                         pace.bytes_s / (giga ? 1e9 : 1e6), giga ? "GB" : "MB");
        if (pace.latency_s > 0) out += formatted(", {:.4g} us", 1e6 * pace.latency_s);
    }
    return out;
}

std::unique_ptr<PaceClock> make_pace_clock() {
    return std::make_unique<SteadyClock>();
}

PacedEngine::PacedEngine(std::unique_ptr<RingEngine> inner, std::vector<DrivePace> paces,
                         uint32_t depth, std::unique_ptr<PaceClock> clock)
    : inner_(std::move(inner)),
      clock_(std::move(clock)),
      shared_pace_(paces.size() == 1),
      due_(depth),
      scratch_(depth),
      name_(cat(inner_->name(), ", paced to ", paces_text(paces))) {
    assert(!paces.empty());
    for (const DrivePace& pace : paces) pipes_.push_back({pace, {}});
    held_.reserve(depth);
}

PacedEngine::Pipe& PacedEngine::pipe(uint32_t drive) {
    while (shared_pace_ && drive >= pipes_.size()) pipes_.push_back({pipes_.front().pace, {}});
    assert(drive < pipes_.size());
    return pipes_[drive];
}

void PacedEngine::set_pace(uint32_t drive, DrivePace pace) {
    pipe(drive).pace = pace;
}

Result<void> PacedEngine::submit(std::span<const Raw> reads) {
    const Time now = clock_->now();
    for (const Raw& read : reads) {
        Pipe& drive = pipe(read.drive);
        const Time begin = std::max(drive.free_at, now + duration(drive.pace.latency_s));
        drive.free_at = begin + duration(read.length / drive.pace.bytes_s);
        due_[read.id] = drive.free_at;
    }
    running_ += reads.size();
    return inner_->submit(reads);
}

Result<void> PacedEngine::take_inner(bool wait) {
    if (running_ == 0) return {};
    const auto reaped = inner_->reap(scratch_, wait);
    if (!reaped) return tl::unexpected(reaped.error());
    running_ -= *reaped;
    for (size_t i = 0; i < *reaped; ++i) {
        held_.push_back({due_[scratch_[i].id], scratch_[i]});
        std::push_heap(held_.begin(), held_.end());
    }
    return {};
}

size_t PacedEngine::release(std::span<RawDone> out) {
    const Time now = clock_->now();
    size_t count = 0;
    while (count < out.size() && !held_.empty() && held_.front().due <= now) {
        out[count++] = held_.front().done;
        std::pop_heap(held_.begin(), held_.end());
        held_.pop_back();
    }
    return count;
}

Result<size_t> PacedEngine::reap(std::span<RawDone> out, bool wait) {
    assert(!out.empty() && (!wait || running_ + held_.size() > 0));
    while (true) {
        if (auto taken = take_inner(wait && held_.empty()); !taken) {
            return tl::unexpected(taken.error());
        }
        const size_t count = release(out);
        if (count > 0 || !wait) return count;
        if (held_.empty()) continue;
        const Time due = held_.front().due;
        clock_->wait_until(running_ == 0 ? due : std::min(due, clock_->now() + nap));
    }
}

}  // namespace sluice
