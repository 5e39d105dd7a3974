// Divides a layer's experts between the CPU, which computes them from RAM, and the link to the
// device: the assignment that finishes earliest at the rates measured so far.
//
// Rates are moving averages of measurements. A rate that is unknown, or was not measured for long
// because the other side always wins, is measured by giving that side one expert, so rarely that it
// costs at most half a percent. The assignment changes no result. Pure: the caller passes the time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice {

// Seconds per expert; 0: unknown.
struct SplitRates {
    double link_s = 0;   // to upload one to the device
    double cpu_s = 0;    // to compute one row of one on the CPU
    double drive_s = 0;  // to read one
};

struct SplitItem {
    int32_t expert = 0;
    int32_t rows = 1;
    bool in_ram = true;  // else it arrives after the earlier items that are not in RAM either
};

class ExpertSplit {
 public:
    // `share`: percent of the items for the CPU, whatever the rates; empty: depends on the rates.
    explicit ExpertSplit(std::optional<uint32_t> share) : share_(share) {}

    // Sets on_cpu[i] for the items that the CPU computes. `now`: seconds since any fixed time.
    void assign(std::span<const SplitItem> items, double now, std::vector<uint8_t>& on_cpu);

    // Measurements: `seconds` were spent on so many experts, or expert rows.
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
