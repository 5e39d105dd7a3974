// Measures how fast the drive delivers a model's bytes: with plain io_uring reads at every block
// size and depth, and with the engine's own expert reader. The two take turns, so that both meet
// the same drive.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"

namespace sluice {

struct DriveCell {
    uint32_t block = 0;  // bytes per read
    uint32_t depth = 0;  // reads in flight
    double bytes_s = 0;
};

struct DriveReport {
    std::vector<DriveCell> raw;  // one pass over all sizes and depths; empty for paced drives
    DriveCell best;              // the fastest of them; its rate is a median, measured again in
                                 // turns. Paced drives: the sum of the rates they are paced to
    double stream_bytes_s = 0;   // median with the expert reader kept busy, as in a prompt
    double layer_bytes_s = 0;    // median with top-k experts requested and awaited, as in decode
    uint64_t expert_bytes = 0;
    std::string io_name;
    uint32_t drives = 1;
};

struct EngineReadRates {
    double stream_bytes_s = 0, layer_bytes_s = 0;  // as in DriveReport, one measurement each
};
// Measures only the engine's own reads, for `seconds` each, into as many slots as `room` bytes
// hold; fewer than a layer's experts are refused (no_memory). Error (usage) when --io paced is so
// slow that the fewest reads that measure anything would take longer than a minute.
Result<EngineReadRates> measure_engine_reads(const EngineOptions& options, uint64_t room,
                                             double seconds);

// The same error before anything is measured, for the least that `sluice bench` reads: the experts
// of one token, or the reads of bench_drive().
Result<void> check_bench_pace(const EngineOptions& options);

// Reads from the largest shards, at random places, with the tuning of `options`; computes nothing.
// One measurement lasts `seconds`. Buffers take at most `room` bytes; deep reads of large blocks
// that need more are left out. Ctrl-C: interrupted.
Result<DriveReport> bench_drive(const EngineOptions& options, uint64_t room, double seconds);

}  // namespace sluice
