// Recorded runs, and whether this engine repeats them.
//
// Two formats. "sluice-reference-trace-1" comes from the model's official program: tokens, and for
// each of them the best ids with their logits, within the tolerance the file carries.
// "sluice-trace-1" is our own (`sluice record`): the same fields, logits that are exact in fp32,
// and a checksum of all logits of every step; on one build and one kind of device it repeats bit by
// bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"

namespace sluice {

struct TraceStep {
    int32_t position = 0;          // whose output chose `token`
    int32_t token = -1;            // -1 in prompt steps
    std::vector<int32_t> ids;      // the best ids, best first
    std::vector<float> logits;     // theirs
    uint64_t logits_checksum = 0;  // of all [vocab] fp32 logits; 0: not recorded
};

struct Trace {
    std::string name;  // file name without folders
    std::string model;
    std::string origin;
    bool exact = false;  // our own: bit by bit
    IndexKeys index_keys = IndexKeys::own;
    double tie_margin = 0, rel_median = 0, rel_max = 0;
    std::vector<int32_t> prompt;
    std::vector<int32_t> tokens;
    std::vector<TraceStep> steps;         // one a token
    std::vector<TraceStep> prompt_steps;  // one a prompt position, or none
};

// corrupt (best ids that are not distinct, best first and greedy included) or unsupported: names
// file and field.
Result<Trace> read_trace(const std::filesystem::path& path);
Result<void> write_trace(const std::filesystem::path& path, const Trace& trace);
// Where write_trace() may write for a user: see output_file(). An official trace is never replaced.
Result<std::filesystem::path> trace_output(const std::filesystem::path& path);
// The trace files among `paths`: a file as it is, a folder as its *.json in name order. An empty
// folder or a missing path is an error.
Result<std::vector<std::filesystem::path>> find_traces(const std::vector<std::string>& paths);

struct TraceFlip {  // the best id is another one than recorded
    int32_t position;
    int32_t expected, got;
    float expected_logit, got_logit;  // this engine's, of the two
    double margin;                    // the recording's, between its two best
    bool tie;                         // margin < tie_margin: reported, no failure
};

struct TraceReport {
    std::string name;
    size_t steps = 0;                    // compared, prompt steps included
    std::vector<TraceFlip> flips;        // in position order
    double rel_median = 0, rel_max = 0;  // |difference| / |recorded| over a step's best ids
    int32_t rel_max_position = -1;
    bool pass = false;
    std::string failure;  // the first reason, one clause; empty if pass
};

// Teacher-forced: resets the session, feeds the prompt (in chunks of settings().chunk), then the
// recorded tokens one by one. A trace of another model size, or made with other index keys than the
// engine runs with, is an Error (usage) that names the flag. Which trace it was, the caller says.
Result<TraceReport> compare(const Engine& engine, Session& session, const Trace& trace);

// Runs greedily from `prompt` for up to `count` tokens or until an end token, and keeps the `best`
// best ids a step. `told` (may be empty) sees each token; false stops.
struct RecordOptions {
    int32_t count = 64;
    int32_t best = 8;
    bool prompt_steps = false;
    std::function<bool(int32_t token)> told;
};
Result<Trace> record_trace(const Engine& engine, Session& session,
                           const std::vector<int32_t>& prompt, const RecordOptions& options);

}  // namespace sluice
