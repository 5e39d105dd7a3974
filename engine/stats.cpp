#include "engine/stats.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace sluice {

namespace {

// The counters of each struct. A member that is in no list does not add up (an average, a state, a
// peak): it keeps the value of the later reading.
constexpr auto run_counters = std::tuple(
    &RunStats::cache, &RunStats::vram, &RunStats::expert_bytes, &RunStats::row_bytes,
    &RunStats::rows_asked, &RunStats::row_hits, &RunStats::prompt_tokens, &RunStats::decode_tokens,
    &RunStats::prompt_s, &RunStats::decode_s, &RunStats::compute_s, &RunStats::host_s);
constexpr auto cpu_counters =
    std::tuple(&CpuExpertStats::asked, &CpuExpertStats::computed, &CpuExpertStats::seconds);
constexpr auto ring_counters =
    std::tuple(&RingStats::reads, &RingStats::bytes, &RingStats::resubmitted, &RingStats::busy_s,
               &RingStats::wait_s);
constexpr auto drive_counters = std::tuple(&DriveStats::reads, &DriveStats::bytes,
                                           &DriveStats::busy_s, &DriveStats::expert_bytes);
constexpr auto device_counters =
    std::tuple(&Backend::Counters::launches, &Backend::Counters::graphs, &Backend::Counters::waits,
               &Backend::Counters::downloads, &Backend::Counters::upload_bytes,
               &Backend::Counters::upload_s, &Backend::Counters::busy_s);

template <class Stats, class Members, class Operation>
void apply(Stats& a, const Stats& b, const Members& members, Operation operation) {
    std::apply([&](auto... member) { ((a.*member = operation(a.*member, b.*member)), ...); },
               members);
}

template <class Operation>
RunStats combined(RunStats a, const RunStats& b, Operation operation) {
    apply(a, b, run_counters, operation);
    apply(a.cpu, b.cpu, cpu_counters, operation);
    apply(a.ring, b.ring, ring_counters, operation);
    apply(a.device, b.device, device_counters, operation);
    a.drives.resize(std::max(a.drives.size(), b.drives.size()));
    for (size_t i = 0; i < b.drives.size(); ++i) {
        apply(a.drives[i], b.drives[i], drive_counters, operation);
    }
    return a;
}

}  // namespace

RunStats operator-(RunStats later, const RunStats& earlier) {
    return combined(std::move(later), earlier, std::minus<>());
}

RunStats operator+(const RunStats& earlier, RunStats later) {
    RunStats all = combined(std::move(later), earlier, std::plus<>());
    all.device.memory_peak = std::max(all.device.memory_peak, earlier.device.memory_peak);
    return all;
}

}  // namespace sluice
