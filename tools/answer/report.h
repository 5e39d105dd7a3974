// Reports what a run did and how fast it could have been: as one line, as a block of text, as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "engine/engine.h"
#include "tools/answer/generate.h"
#include "tools/answer/json_writer.h"

namespace sluice {

// The best speed this run allowed, from its own measurements, in seconds per token:
//   drive  bytes read, divided by the read rate while reads were in flight
//   link   bytes uploaded, divided by the rate of the copies, by the device's clock
//   cpu    without a GPU: the time not spent waiting for reads; with one: the CPU's computing time
//   gpu    the device's kernels between two waits, by its own clock
// If all four overlap perfectly, a token takes as long as the longest: t = max(drive, link, cpu,
// gpu).
struct Limit {
    double tok_s = 0;        // 0: nothing was decoded
    double share = 0;        // reached / limit
    const char* binds = "";  // the bottleneck: "drive", "link", "cpu" or "gpu"
    double drive_s = 0, link_s = 0, cpu_s = 0, gpu_s = 0;
};
Limit limit_of(const RunStats& run, uint64_t tokens, double seconds);

struct RunFacts {        // what is the same for every answer of a run
    std::string server;  // the address of the one that answers; empty: this process does. Of the
                         // members below, then only model, mode, seed and context are known.
    std::string model, device, io_name, mode;
    std::string placement;  // what is where in memory, several lines
    std::string pace;  // of --io paced, otherwise empty
    double load_s = 0;
    LoadFacts load;
    uint64_t seed = 0;
    int32_t context = 0;
    uint64_t expert_bytes = 0;
    std::vector<int32_t> end_tokens;
};

// One line: "25 tokens · 15.3 tok/s · first token 0.3 s · context 43/8192".
std::string speed_line(const Answer& answer, const RunFacts& facts);
// Its explanation, for --stats: limit and bottleneck, hit rate, bytes read, prefetches.
std::string speed_details(const Answer& answer, const RunFacts& facts);
// True when the answer ended because the context is full.
bool fills_context(const Answer& answer, const RunFacts& facts);
// What cut the answer off in its reasoning, and what to do; empty: nothing did.
std::string cut_reasoning_text(const Answer& answer);
// How to get a larger one: "start with a larger -c".
std::string context_advice(const RunFacts& facts);
// "http://127.0.0.1:8080 (dsv41-tiny)"; requires a server.
std::string server_text(const RunFacts& facts);
// Several lines, for --stats and /stats.
std::string stats_block(const Answer& answer, const RunFacts& facts);
// The object of --json: {text, reasoning, finish_reason, usage, timings, cache, io, limit, seed,
// model, device}; with `error` when an error ended the answer. Of a server's answer, what only the
// server knows is left out, and `server` says whose it is.
std::string answer_json(const Answer& answer, const RunFacts& facts);

void write_cache(JsonWriter& json, const CacheStats& cache);
std::string cpu_experts_text(const CpuExpertStats& cpu);
void write_cpu_experts(JsonWriter& json, const CpuExpertStats& cpu);
void write_limit(JsonWriter& json, const Limit& limit);

// The share of the drive's rate that was reached while dense weights were read; 0: unknown.
double load_share(const LoadFacts& load);

double rate(double amount, double seconds);  // 0 when seconds is 0
}  // namespace sluice
