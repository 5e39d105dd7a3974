// What a load and a run did: plain numbers, owned by the session, summed and printed by front-ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/stats.h"
#include "io/ring/ring.h"
#include "kernels/backend.h"

namespace sluice {

// How the start went.
struct LoadFacts {
    uint64_t bytes = 0;  // of dense weights read
    double seconds = 0;
    double drive_bytes_s = 0;  // of all drives together, paced or measured; 0: not known
    std::string reads;         // how experts are read, and why so
};

// Experts beside a device with memory of its own.
struct CpuExpertStats {
    uint64_t asked = 0;            // not in VRAM, in passes the CPU may take part in
    uint64_t computed = 0;         // of those, by the CPU
    double seconds = 0;            // of the CPU
    double link_s = 0, cpu_s = 0;  // latest averages an expert; 0: not measured
    uint64_t expert_bytes = 0;
};

// What a run did, for --stats, --json and the last line.
struct RunStats {
    CacheStats cache;
    RingStats ring;
    std::vector<DriveStats> drives;  // by number: folders as given, mirrors last
    uint64_t expert_bytes = 0;       // read from the drive
    uint64_t row_bytes = 0;
    uint64_t rows_asked = 0, row_hits = 0;
    uint64_t prompt_tokens = 0, decode_tokens = 0;
    double prompt_s = 0, decode_s = 0;
    CacheStats vram;  // the expert tier in VRAM; its misses are the RAM tier's asked
    CpuExpertStats cpu;
    Backend::Counters device;  // launches, waits, downloads, uploads, peak
    double compute_s = 0;      // of those, not spent waiting for the drive
    double host_s = 0;         // beside a device with memory of its own: the CPU's kernels
};

// What happened between two readings of a session's stats, and the sum of two parts of one run.
// Averages and states are the later ones; the peak of a sum is the larger one.
RunStats operator-(RunStats later, const RunStats& earlier);
RunStats operator+(const RunStats& earlier, RunStats later);

}  // namespace sluice
