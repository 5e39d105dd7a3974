// Traces: recorded greedy runs, and the comparison of this engine with them.
//
// Two formats, described in tests/golden/TRACES.md. A reference trace ("sluice-reference-trace-1")
// comes from another program: for each token the best ids with their logits, compared within the
// tolerance that the file carries. An own trace ("sluice-trace-1") comes from `sluice record`: the
// same fields with exact fp32 logits and a checksum of all logits of every step; on one build and
// one kind of device it repeats bit by bit.
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
    int32_t position = 0;          // whose logits chose `token`
    int32_t token = -1;            // -1 in prompt steps
    std::vector<int32_t> ids;      // ids with the highest logits, best first
    std::vector<float> logits;     // theirs
    uint64_t logits_checksum = 0;  // of all [vocab] fp32 logits; 0: not recorded
};

struct Trace {
    std::string name;  // file name without folders
    std::string model;
    std::string origin;
    bool exact = false;  // an own trace: compared bit by bit
    IndexKeys index_keys = IndexKeys::own;
    double tie_margin = 0, rel_median = 0, rel_max = 0;
    std::vector<int32_t> prompt;
    std::vector<int32_t> tokens;
    std::vector<TraceStep> steps;         // one per token
    std::vector<TraceStep> prompt_steps;  // one per prompt position, or none
};

// Fails (corrupt, unsupported), naming file and field, also where a step's best ids are not
// distinct and best first, or its token is not the best of them.
Result<Trace> read_trace(const std::filesystem::path& path);
std::string trace_text(const Trace& trace);  // as in a file
Result<void> write_trace(const std::filesystem::path& path, const Trace& trace);
// Where write_trace() may write for a user: see output_file(). Never replaces a reference trace.
Result<std::filesystem::path> trace_output(const std::filesystem::path& path);
// The trace files that `paths` name: a file itself, a folder's *.json in name order. A folder
// without any, or a missing path, is an error (not_found).
Result<std::vector<std::filesystem::path>> find_traces(const std::vector<std::string>& paths);

struct TraceFlip {  // the best id differs from the recorded one
    int32_t position;
    int32_t expected, got;
    float expected_logit, got_logit;  // this engine's logits of the two
    double margin;                    // recorded, between the two best
    bool tie;                         // margin < tie_margin: reported, not a failure
};

struct TraceReport {
    std::string name;
    size_t steps = 0;                    // compared, prompt steps included
    std::vector<TraceFlip> flips;        // in position order
    double rel_median = 0, rel_max = 0;  // |difference| / |recorded| over a step's ids
    int32_t rel_max_position = -1;
    bool pass = false;
    std::string failure;  // the first one, one clause; empty if pass
};

// Teacher-forced: resets the session, feeds the prompt (in chunks of settings().chunk), then the
// recorded tokens one by one. A trace of a model with a larger vocabulary, or made with other index
// keys than the engine runs with, is an Error (usage) that names the flag; the caller adds the
// file.
Result<TraceReport> compare(const Engine& engine, Session& session, const Trace& trace);

// Runs greedily from `prompt` for up to `count` tokens or until an end token, and keeps the `best`
// best ids of every step. `on_token` (may be empty) sees each token; false stops.
struct RecordOptions {
    int32_t count = 64;
    int32_t best = 8;
    bool prompt_steps = false;
    std::function<bool(int32_t token)> on_token;
};
Result<Trace> record_trace(const Engine& engine, Session& session,
                           const std::vector<int32_t>& prompt, const RecordOptions& options);

}  // namespace sluice
