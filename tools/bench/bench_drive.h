// How fast the drive gives a model's bytes: by plain io_uring at every block size and depth, and by
// the engine's own expert reader, in turns, so that both see the same drive.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"

namespace sluice {

struct DriveCell {
    uint32_t block = 0;  // bytes a read
    uint32_t depth = 0;  // reads in flight
    double bytes_s = 0;
};

struct DriveReport {
    std::vector<DriveCell> raw;  // one pass over all sizes and depths
    DriveCell best;              // of them, its rate measured again in turns: the median; of paced
                                 // drives what they are paced to together, and no raw reads
    double stream_bytes_s = 0;   // expert reader kept busy, as in a prompt sweep: the median
    double layer_bytes_s = 0;    // top-k experts asked for and awaited, as in decode: the median
    uint64_t expert_bytes = 0;
    std::string io_name;
    uint32_t drives = 1;
};

struct EngineReadRates {
    double stream_bytes_s = 0, layer_bytes_s = 0;  // as in DriveReport, one measurement each
};
// The engine's own reads alone, `seconds` each. usage where --io paced plays a drive on which the
// fewest reads that measure anything take longer than a minute: nobody would know why.
// Into as many slots as `room` bytes hold; fewer than a layer's experts are refused (no_memory).
Result<EngineReadRates> measure_engine_reads(const EngineOptions& options, uint64_t room,
                                             double seconds);

// As above, before anything is measured, for what `sluice bench` reads at the least: the experts of
// a token, or what bench_drive() reads.
Result<void> check_bench_pace(const EngineOptions& options);

// Reads from the largest shards, at random places, with the tuning of `options`; nothing is
// computed. `seconds` is how long one measurement lasts. Buffers take `room` bytes at the most:
// deep reads of large blocks that need more are left out. Ctrl-C: interrupted.
Result<DriveReport> bench_drive(const EngineOptions& options, uint64_t room, double seconds);

}  // namespace sluice
