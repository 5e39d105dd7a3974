// Everything a person can ask for on the command line, in the environment and in a file.
//
// Order: flag > SLUICE_<NAME> > user file > system file > default. options.cpp is the only file
// that sees CLI11; option_table.cpp is the list of options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "io/error.h"
#include "io/log.h"
#include "tools/terminal/flag_origin.h"
#include "tools/terminal/terminal.h"

namespace sluice {

enum class Command { answer, record, inspect, simulate, bench, plan, selftest };

enum class Reasoning { automatic, on, off };

struct Options {
    Command command = Command::answer;
    EngineOptions engine;

    std::optional<std::string> prompt;  // "-": standard input
    std::string prompt_file, system_prompt, system_prompt_file;
    int64_t predict = -1;  // -1: until an end token or a full context
    // Empty: the model's generation_config.json, else the card's 1.0 and 0.95, else neutral.
    std::optional<double> temperature, top_p, min_p, repeat_penalty;
    std::optional<int32_t> top_k;
    std::optional<uint64_t> seed;  // empty: drawn, and shown
    std::vector<std::string> stop;
    Reasoning reasoning = Reasoning::automatic;
    std::optional<int> effort;  // given: thinking is asked for, unless --reasoning off
    int32_t loop_guard = 0;
    bool ignore_eos = false, show_reasoning = false, no_stream = false;

    bool json = false, stats = false, show_timings = false, quiet = false, verbose = false;
    std::optional<log::Level> log_level;
    std::string profile_file;  // empty: none
    ColorChoice color = ColorChoice::automatic;

    std::vector<std::string> traces;                // --verify
    std::string output, messages_file;              // record
    bool check = false;                             // inspect
    std::string hashes;                             // inspect: written, or compared with
    std::vector<std::string> route_files;           // simulate
    std::vector<std::string> policies, predictors;  // simulate, empty: all
    std::vector<uint32_t> slot_counts;              // simulate, empty: a range
    std::vector<std::string> only;                  // bench
    std::string shape;                              // plan, instead of a model
    uint64_t drive_rate = 0;                        // plan, bytes a second; 0: measured

    // Thinking mode: off unless asked for by --reasoning on or an effort.
    bool thinking() const;
};

// What main does: run a command, or print a text (help, version, devices) and leave.
struct Invocation {
    Options options;
    std::vector<FlagOrigin> origins;  // of the values that no flag gave
    enum class Show { nothing, help, version, devices } show = Show::nothing;
    std::string help;
};

// `environment` reads a variable or returns nullptr. Errors are usage, one line, and name flag,
// value and range, and the variable or line of a file that the value is from.
Result<Invocation> parse_options(const std::vector<std::string>& arguments,
                                 const char* (*environment)(const char* name));

}  // namespace sluice
