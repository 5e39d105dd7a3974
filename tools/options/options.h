// Everything a user can ask for, on the command line, in the environment and in files.
//
// Order: flag > SLUICE_<NAME> > user file > system file > default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options.h"
#include "io/error.h"
#include "io/log.h"
#include "tools/terminal/flag_origin.h"
#include "tools/terminal/terminal.h"

namespace sluice {

enum class Command { answer, serve, batch, record, inspect, simulate, bench, plan, selftest };

// A text that is printed instead of running the command.
enum class Show { nothing, help, help_advanced, help_markdown, version, devices };

enum class Reasoning { automatic, on, off };

// Of `sluice serve`.
struct ServeOptions {
    std::string host = "127.0.0.1";
    int32_t port = 8080;  // 0: any free one
    std::string alias;    // empty: the name of the model's folder
    std::vector<std::string> api_keys, allowed_hosts, origins;
    int32_t queue = 16, connections = 64;
    uint64_t body_max = uint64_t{16} << 20, header_max = uint64_t{32} << 10;  // bytes
    int32_t request_timeout_s = 30, write_timeout_s = 30;
};

// The server that answers instead of a model in this process.
struct AttachOptions {
    std::string url;           // empty: none
    std::string source;        // where it is from: "--attach", "SLUICE_SERVER", a line of a file
    bool typed = false;        // on the command line: no other will do
    std::string loading_flag;  // one that was typed, and is about a model that is loaded here:
                               // "--ram"; empty: none
};

struct Options {
    Command command = Command::answer;
    Show show = Show::nothing;
    std::string config_file;  // empty: the default ones
    EngineOptions engine;
    ServeOptions serve;
    AttachOptions attach;

    std::optional<std::string> prompt;  // "-": standard input
    std::string prompt_file, system_prompt, system_prompt_file;
    int64_t predict = -1;  // -1: until an end token or a full context
    // Empty: the model's generation_config.json, else the model card's 1.0 and 0.95, else neutral.
    std::optional<double> temperature, top_p, min_p, repeat_penalty;
    std::optional<int32_t> top_k;
    std::optional<uint64_t> seed;  // empty: drawn, and shown
    std::vector<std::string> stop;
    Reasoning reasoning = Reasoning::automatic;
    std::optional<int> effort;  // given: thinking is on, unless --reasoning off
    std::string format;         // "json" or a file with a JSON schema; empty: any text
    int32_t loop_guard = 0;
    bool ignore_eos = false, show_reasoning = false, no_stream = false;

    bool json = false, stats = false, show_timings = false, quiet = false, verbose = false;
    std::optional<log::Level> log_level;
    std::string profile_file;  // empty: none
    ColorChoice color = ColorChoice::automatic;

    std::optional<bool> prompt_cache;                 // empty: on where a process talks for long
    std::string prompt_cache_folder;                  // empty: the default one
    uint64_t prompt_cache_bytes = uint64_t{4} << 30;  // on disk
    std::string session_file;                         // one answer of a kept conversation

    std::vector<std::string> traces;                // --verify
    std::string output;                             // record, batch
    std::string messages_file;                      // record, one-shot
    std::string batch_file;                         // batch; empty or "-": standard input
    bool check = false;                             // inspect
    std::string hashes;                             // inspect: written, or compared with
    std::vector<std::string> route_files;           // simulate
    std::vector<std::string> policies, predictors;  // simulate, empty: all
    std::vector<uint32_t> slot_counts;              // simulate, empty: a range
    std::vector<std::string> only;                  // bench
    std::string shape;                              // plan, instead of a model
    uint64_t drive_rate = 0;                        // plan, bytes per second; 0: measured

    bool warm_start = true;  // where it applies: keeps_warm()

    // Whether this run begins with the experts of the last one: only one that answers.
    bool keeps_warm() const;
    // Thinking mode: off unless --reasoning on or an effort asks for it.
    bool thinking() const;
};

struct Invocation {
    Options options;
    std::vector<FlagOrigin> origins;  // of the values that no flag gave
};

// The options of one run; with a `show` other than nothing, no file is read and no variable.
// `environment` reads a variable or returns nullptr. Errors are usage, one line, and name flag,
// value and range, and the variable or line of a file that the value is from.
Result<Invocation> parse_options(const std::vector<std::string>& arguments,
                                 const char* (*environment)(const char* name));

}  // namespace sluice
