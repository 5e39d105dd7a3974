// What a run did, as a line, a block of text, and JSON; and what it could have reached.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "tools/answer/generate.h"
#include "tools/answer/json_writer.h"

namespace sluice {

// From what was measured in this run, seconds a token:
//   drive  bytes read over the rate while reads were in flight
//   link   bytes uploaded over the rate of the copies, by the card's clock
//   cpu    on the CPU: the time no read was waited for; beside a card: what the CPU computed
//   gpu    the card's kernels between two waits, by its own clock
// Done perfectly side by side, the longest is a token's time: t = max(drive, link, cpu, gpu).
struct Limit {
    double tok_s = 0;        // 0: nothing was decoded
    double share = 0;        // reached / limit
    const char* binds = "";  // "drive", "link", "cpu" or "gpu"
    double drive_s = 0, link_s = 0, cpu_s = 0, gpu_s = 0;
};
Limit limit_of(const RunStats& run, uint64_t tokens, double seconds);

struct RunFacts {  // of the run, not of one answer
    std::string model, device, io_name, mode;
    std::string pace;  // of a paced drive, else empty
    double load_s = 0;
    LoadFacts load;
    uint64_t seed = 0;
    int32_t context = 0;
    uint64_t expert_bytes = 0;
    std::vector<int32_t> end_tokens;
};

// One line: speed, limit and what binds, hit rate, bytes, prefetch.
std::string speed_line(const Answer& answer, const RunFacts& facts);
// Whether the answer ended because there was no room left in the context.
bool fills_context(const Answer& answer, const RunFacts& facts);
// Several lines for --stats and /stats.
std::string stats_block(const Answer& answer, const RunFacts& facts);
// The object of --json: {text, reasoning, finish_reason, usage, timings, cache, io, limit, seed,
// model, device}; with `error` when the answer broke off.
std::string answer_json(const Answer& answer, const RunFacts& facts);

void write_cache(JsonWriter& json, const CacheStats& cache);
std::string cpu_experts_text(const CpuExpertStats& cpu);
void write_cpu_experts(JsonWriter& json, const CpuExpertStats& cpu);
void write_limit(JsonWriter& json, const Limit& limit);

// Of the drive's rate, while dense weights were read; 0 when that is not known.
double load_share(const LoadFacts& load);

double rate(double amount, double seconds);  // 0 when seconds is 0
}  // namespace sluice
