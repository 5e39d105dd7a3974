#include "engine/forward/expert_split.h"

#include <algorithm>
#include <numeric>

namespace sluice {

namespace {

constexpr uint32_t warm_up = 2;          // samples not counted: threads start, pages are touched
constexpr double weight = 0.125;         // of a new sample in the average
constexpr double weight_of_probe = 0.5;  // of a sample after a pause
constexpr double probe_share = 0.005;    // of the time, at most, measures the slower side
constexpr double probe_pause_s = 0.25;   // between two such measurements, at least

}  // namespace

void ExpertSplit::assign(std::span<const SplitItem> items, double now,
                         std::vector<uint8_t>& on_cpu) {
    on_cpu.assign(items.size(), 0);
    if (items.empty()) return;
    if (share_) return by_share(on_cpu);
    if (rates_.cpu_s > 0 && rates_.link_s > 0) by_rates(items, on_cpu);
    probe(items, now, on_cpu);
}

// Takes the last items; any would do.
void ExpertSplit::by_share(std::vector<uint8_t>& on_cpu) const {
    const size_t count = (on_cpu.size() * *share_ + 50) / 100;
    std::fill_n(on_cpu.rbegin(), std::min(count, on_cpu.size()), uint8_t{1});
}

// Items in RAM come first, the largest of them before the others. Each one goes to the side that
// finishes it earlier.
void ExpertSplit::by_rates(std::span<const SplitItem> items, std::vector<uint8_t>& on_cpu) {
    order_.resize(items.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
        if (items[a].in_ram != items[b].in_ram) return items[a].in_ram;
        return items[a].in_ram && items[a].rows > items[b].rows;
    });
    double link = 0, cpu = 0, arrival = 0;
    for (size_t i : order_) {
        if (!items[i].in_ram) arrival += rates_.drive_s;
        const double there = items[i].in_ram ? 0 : arrival;
        const double by_link = std::max(link, there) + rates_.link_s;
        const double by_cpu = std::max(cpu, there) + rates_.cpu_s * items[i].rows;
        on_cpu[i] = by_cpu < by_link;
        (on_cpu[i] ? cpu : link) = on_cpu[i] ? by_cpu : by_link;
    }
}

bool ExpertSplit::wants_probe(const Average& average, double rate, double now) const {
    if (rate <= 0) return true;
    return now - average.seen_at > std::max(probe_pause_s, rate / probe_share);
}

// Gives one expert to a side that has none and should be measured: the smallest one to the CPU.
void ExpertSplit::probe(std::span<const SplitItem> items, double now,
                        std::vector<uint8_t>& on_cpu) {
    const auto count = static_cast<size_t>(std::count(on_cpu.begin(), on_cpu.end(), 1));
    if (count == 0 && wants_probe(cpu_, rates_.cpu_s, now)) {
        const auto least = std::min_element(
            items.begin(), items.end(), [](const SplitItem& a, const SplitItem& b) {
                return a.in_ram != b.in_ram ? a.in_ram : a.rows < b.rows;
            });
        on_cpu[static_cast<size_t>(least - items.begin())] = 1;
    } else if (count == items.size() && wants_probe(link_, rates_.link_s, now)) {
        on_cpu.front() = 0;
    }
}

void ExpertSplit::add(Average& average, double& rate, double sample, double now) {
    const bool old = now - average.seen_at > probe_pause_s;
    average.seen_at = now;
    if (average.samples++ < warm_up) return;
    rate = rate > 0 ? rate + (old ? weight_of_probe : weight) * (sample - rate) : sample;
}

void ExpertSplit::link_took(double seconds, uint64_t experts, double now) {
    if (experts == 0 || seconds <= 0) return;
    add(link_, rates_.link_s, seconds / static_cast<double>(experts), now);
}

void ExpertSplit::cpu_took(double seconds, uint64_t rows, double now) {
    if (rows == 0 || seconds <= 0) return;
    add(cpu_, rates_.cpu_s, seconds / static_cast<double>(rows), now);
}

}  // namespace sluice
