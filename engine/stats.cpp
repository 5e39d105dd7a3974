#include "engine/stats.h"

#include <algorithm>

namespace sluice {

namespace {

CacheStats operator-(CacheStats a, const CacheStats& b) {
    a.asked -= b.asked;
    a.hits -= b.hits;
    a.late_prefetches -= b.late_prefetches;
    a.misses -= b.misses;
    a.evictions -= b.evictions;
    a.sweep_asked -= b.sweep_asked;
    a.sweep_hits -= b.sweep_hits;
    a.chunks_grouped -= b.chunks_grouped;
    a.ahead_started -= b.ahead_started;
    a.ahead_dropped -= b.ahead_dropped;
    a.prefetch_started -= b.prefetch_started;
    a.prefetch_used -= b.prefetch_used;
    a.prefetch_wasted -= b.prefetch_wasted;
    a.guesses -= b.guesses;
    a.guesses_right -= b.guesses_right;
    a.prefetch_switched_off -= b.prefetch_switched_off;
    a.bytes_demand -= b.bytes_demand;
    a.bytes_prefetch -= b.bytes_prefetch;
    a.wait_s -= b.wait_s;
    return a;
}

Backend::Counters operator-(Backend::Counters a, const Backend::Counters& b) {
    a.launches -= b.launches;
    a.graphs -= b.graphs;
    a.waits -= b.waits;
    a.downloads -= b.downloads;
    a.upload_bytes -= b.upload_bytes;
    a.upload_s -= b.upload_s;
    a.busy_s -= b.busy_s;
    return a;
}

RingStats operator-(RingStats a, const RingStats& b) {
    a.reads -= b.reads;
    a.bytes -= b.bytes;
    a.resubmitted -= b.resubmitted;
    a.busy_s -= b.busy_s;
    a.wait_s -= b.wait_s;
    return a;
}

// A drive that only one of the two has counts there alone.
std::vector<DriveStats> operator-(std::vector<DriveStats> a, const std::vector<DriveStats>& b) {
    a.resize(std::max(a.size(), b.size()));
    for (size_t i = 0; i < b.size(); ++i) {
        a[i].reads -= b[i].reads;
        a[i].bytes -= b[i].bytes;
        a[i].busy_s -= b[i].busy_s;
        a[i].expert_bytes -= b[i].expert_bytes;
    }
    return a;
}

}  // namespace

// The peak, the CPU's averages and how a drive is are no differences: they stay the later ones.
RunStats operator-(RunStats a, const RunStats& b) {
    a.cache = a.cache - b.cache;
    a.vram = a.vram - b.vram;
    a.cpu.asked -= b.cpu.asked;
    a.cpu.computed -= b.cpu.computed;
    a.cpu.seconds -= b.cpu.seconds;
    a.ring = a.ring - b.ring;
    a.drives = std::move(a.drives) - b.drives;
    a.device = a.device - b.device;
    a.expert_bytes -= b.expert_bytes;
    a.row_bytes -= b.row_bytes;
    a.rows_asked -= b.rows_asked;
    a.row_hits -= b.row_hits;
    a.prompt_tokens -= b.prompt_tokens;
    a.decode_tokens -= b.decode_tokens;
    a.prompt_s -= b.prompt_s;
    a.decode_s -= b.decode_s;
    a.compute_s -= b.compute_s;
    a.host_s -= b.host_s;
    return a;
}

}  // namespace sluice
