// Which of a layer's experts the CPU computes from RAM while the others cross the link to the
// device: the assignment with which, at the rates measured so far, the last of them is done first.
//
// Rates are moving averages of what runs told; one that is not known, or has not been seen for
// long because the other side always wins, is measured by giving that side one expert, so seldom
// that it costs half a percent at most. What is assigned changes no result. Pure: the caller tells
// the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

// Seconds an expert; 0: not known.
struct SplitRates {
    double link_s = 0;   // to bring one to the device
    double cpu_s = 0;    // to compute one row of one
    double drive_s = 0;  // to read one
};

struct SplitItem {
    int32_t expert = 0;
    int32_t rows = 1;
    bool in_ram = true;  // else it arrives after those before it that are not
};

class ExpertSplit {
 public:
    // `share`: percent of the items for the CPU, whatever the rates; empty: by the rates.
    explicit ExpertSplit(std::optional<uint32_t> share) : share_(share) {}

    // on_cpu[i] is set for the items that the CPU computes. `now`: seconds from any start.
    void assign(std::span<const SplitItem> items, double now, std::vector<uint8_t>& on_cpu);

    // `seconds` went into so many experts, or expert rows.
    void link_took(double seconds, uint64_t experts, double now);
    void cpu_took(double seconds, uint64_t rows, double now);
    void drive_takes(double seconds) { rates_.drive_s = seconds; }

    const SplitRates& rates() const { return rates_; }

 private:
    struct Average {
        uint32_t samples = 0;
        double seen_at = 0;
    };
    void add(Average& average, double& rate, double sample, double now);
    bool wants_probe(const Average& average, double rate, double now) const;
    void by_share(std::vector<uint8_t>& on_cpu) const;
    void by_rates(std::span<const SplitItem> items, std::vector<uint8_t>& on_cpu);
    void probe(std::span<const SplitItem> items, double now, std::vector<uint8_t>& on_cpu);

    std::optional<uint32_t> share_;
    SplitRates rates_;
    Average link_, cpu_;
    std::vector<size_t> order_;
};

}  // namespace sluice
