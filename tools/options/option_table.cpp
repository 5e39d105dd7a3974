#include "tools/options/option_table.h"

#include <cctype>

#include "tools/options/option_setters.h"

namespace sluice {

namespace {

using namespace option;

constexpr Commands answer = bit(Command::answer);
constexpr Commands record = bit(Command::record);
constexpr Commands inspect = bit(Command::inspect);
constexpr Commands simulate_ = bit(Command::simulate);
constexpr Commands bench = bit(Command::bench);
constexpr Commands runs_model = answer | comparing | record | bench;
constexpr Commands plan_ = bit(Command::plan);
constexpr Commands plans = runs_model | plan_;
constexpr Commands has_model = plans | inspect;
constexpr Commands selftest_ = bit(Command::selftest);
constexpr Commands everywhere = has_model | simulate_ | selftest_;

constexpr const char* g_model = "Model";
constexpr const char* g_prompt = "Prompt";
constexpr const char* g_sampling = "Sampling";
constexpr const char* g_thinking = "Thinking";
constexpr const char* g_machine = "Machine";
constexpr const char* g_output = "Output";
constexpr const char* g_command = "Command";

// names, value, takes, commands, lasting, group, help, setter
constexpr OptionSpec table[] = {
    {"-m,--model", "MODEL", Takes::repeated, has_model, true, g_model,
     "Model folder or hub id in the Hugging Face cache; again for shards on further drives",
     set_model},
    {"--mirror", "DIR", Takes::repeated, has_model, true, g_model,
     "Folder on a further drive with copies of some or all shards; read from both at once",
     set_mirror},
    {"--revision", "NAME", Takes::one, has_model, true, g_model,
     "Branch, tag or commit of a hub id", set_revision},
    {"--offline", "", Takes::none, has_model, true, g_model, "Accepted; nothing is ever downloaded",
     accept},

    {"-p,--prompt", "TEXT", Takes::one, answer | record, false, g_prompt,
     "Answer once; - reads standard input. A pipe is appended to TEXT", set_text<&Options::prompt>},
    {"-f,--file", "FILE", Takes::one, answer | record, false, g_prompt, "Prompt from a file",
     set_name<&Options::prompt_file>},
    {"--system-prompt", "TEXT", Takes::one, answer | record, true, g_prompt, "System message",
     set_text<&Options::system_prompt>},
    {"--system-prompt-file", "FILE", Takes::one, answer | record, true, g_prompt,
     "System message from a file", set_name<&Options::system_prompt_file>},
    {"--messages", "FILE", Takes::one, record, false, g_prompt,
     "JSON list of {role, content} instead of a prompt", set_name<&Options::messages_file>},
    {"-n,--predict,--n-predict,--max-tokens", "N", Takes::one, answer | record | bench, true,
     g_prompt, "Tokens at the most (-1: until the end)", set_predict},
    {"-c,--ctx-size", "N", Takes::one, plans, true, g_prompt,
     "Context in tokens (default: the model's, at most 8192)", set_context},
    {"--stop", "TEXT", Takes::repeated, answer, true, g_prompt,
     "End the answer before TEXT (up to 16 times)", set_stop},
    {"--ignore-eos", "", Takes::none, answer, true, g_prompt, "Go on after an end token",
     set_switch<&Options::ignore_eos>},
    {"--loop-guard", "N", Takes::one, answer, true, g_prompt,
     "Stop when the last N tokens are one cycle four times or more (0: off)", set_loop_guard},

    {"--temp,--temperature", "X", Takes::one, answer, true, g_sampling,
     "Temperature, 0 is greedy (default: generation_config.json, else 1.0)", set_temperature},
    {"--top-k", "N", Takes::one, answer, true, g_sampling, "Best N only (0: all)", set_top_k},
    {"--top-p", "X", Takes::one, answer, true, g_sampling,
     "Nucleus (default: generation_config.json, else 0.95)", set_top_p},
    {"--min-p", "X", Takes::one, answer, true, g_sampling, "At least X times the best probability",
     set_min_p},
    {"--repeat-penalty", "X", Takes::one, answer, true, g_sampling,
     "Divide the logits of tokens seen (1: off)", set_penalty},
    {"-s,--seed", "N", Takes::one, answer | record | bench, true, g_sampling,
     "Seed (-1: drawn and shown)", set_seed},

    {"--reasoning", "on|off|auto", Takes::one, answer | record, true, g_thinking,
     "Think before the answer (auto: only with --reasoning-effort)", set_reasoning},
    {"--reasoning-effort", "E", Takes::one, answer | record, true, g_thinking,
     "low, high, max or 1 to 100; switches thinking on", set_effort},
    {"--show-reasoning", "", Takes::none, answer, true, g_thinking,
     "Thoughts on stderr also when not on a terminal", set_switch<&Options::show_reasoning>},

    {"-t,--threads", "N", Takes::one, plans | selftest_, true, g_machine,
     "CPU threads (default: the CPUs this process may use)", set_threads},
    {"--device", "NAME", Takes::one, plans | selftest_, true, g_machine,
     "auto, cpu, cuda or cuda:N", set_device},
    {"--cpu-isa", "NAME", Takes::one, plans | selftest_, true, g_machine,
     "auto, scalar, avx2, avx512 or amx", set_isa},
    {"--io", "NAME", Takes::one, plans, true, g_machine,
     "auto, uring, threads, or paced:RATE[,LATENCY]: play a slower drive, like paced:8.8GB,80us; "
     "8.8GB+4.4GB: one a folder, in order",
     set_io},
    {"--io-depth", "N", Takes::one, plans, true, g_machine, "Reads in flight, a drive (64)",
     set_depth},
    {"--expert-parts", "N", Takes::one, plans, true, g_machine,
     "Parallel reads an expert's range is cut in (2)", set_parts},
    {"--experts-in-flight", "N", Takes::one, plans, true, g_machine,
     "Experts read at once, a drive (8)", set_in_flight},
    {"--tune", "", Takes::none, runs_model, false, g_machine,
     "Measure at length how experts are best read, and remember it", set_tune},
    {"--no-calibrate", "", Takes::none, runs_model, true, g_machine,
     "Do not measure the drive at the first start (2 s)", set_no_calibrate},
    {"--ram", "SIZE", Takes::one, plans, true, g_machine,
     "Memory budget, like 12GiB (default: what is free, less a margin)", set_ram},
    {"--vram", "SIZE", Takes::one, plans, true, g_machine,
     "VRAM budget, like 7.3GiB (default: what is free, less a margin)", set_vram},
    {"--vram-slots", "N|off", Takes::one, plans, true, g_machine,
     "Experts kept in VRAM (default: what its budget leaves)", set_vram_slots},
    {"--cpu-experts", "auto|off|P%", Takes::one, plans, true, g_machine,
     "Share of the experts not in VRAM that the CPU computes (default: by measured rates)",
     set_cpu_experts},
    {"--link", "paced:RATE", Takes::one, plans, true, g_machine,
     "Experts reach the device no faster than that, like paced:14GB a second (for measuring)",
     set_link},
    {"--launches", "HOW", Takes::one, runs_model, true, g_machine,
     "plain, overlap, graphs or both (default: overlap where the card can, else graphs)",
     set_launches},
    {"--skip-selftest", "", Takes::none, runs_model, true, g_machine,
     "Do not check a card's kernels at their first start", set_skip_selftest},
    {"--cache-slots", "N|off", Takes::one, plans | simulate_, true, g_machine,
     "Experts kept in memory (default: what the budget leaves); simulate: a list 64,128",
     set_slots},
    {"--cache-policy", "NAME", Takes::one, runs_model | simulate_, true, g_machine,
     "aging-lru, lru, lfu, slru, layer-lru; simulate: a list, belady too", set_policy},
    {"--predictor", "NAME", Takes::one, runs_model | simulate_, true, g_machine,
     "router, repeat or none; simulate: a list", set_predictor},
    {"--prefetch", "N|off", Takes::one, runs_model | simulate_, true, g_machine,
     "Guesses a layer, at most as many as a token uses there and slots are free (default: 0 to 4, "
     "governed by what they gain)",
     set_prefetch},
    {"--chunk", "N", Takes::one, plans, true, g_machine,
     "Prompt tokens at once (default: what fits)", set_chunk},
    {"--index-keys", "own|reference", Takes::one, answer | comparing | record, true, g_machine,
     "reference: the official program's decode quirk", set_index_keys},
    {"--profile", "FILE", Takes::one, runs_model, false, g_output,
     "Write where the time went, for ui.perfetto.dev", set_name<&Options::profile_file>},
    {"--record-routes", "FILE", Takes::one, answer | comparing, false, g_machine,
     "Write every router choice, for sluice simulate", set_record_routes},

    {"--json", "", Takes::none, answer | inspect | simulate_ | bench | plan_, false, g_output,
     "One JSON object on standard output", set_switch<&Options::json>},
    {"--stats", "", Takes::none, answer, true, g_output, "What the run did, on stderr",
     set_switch<&Options::stats>},
    {"--show-timings", "", Takes::none, answer, true, g_output, "The speed line also with --quiet",
     set_switch<&Options::show_timings>},
    {"--no-stream", "", Takes::none, answer, true, g_output, "Print the answer when it is whole",
     set_switch<&Options::no_stream>},
    {"--color", "on|off|auto", Takes::one, everywhere, true, g_output,
     "Colour on stderr (NO_COLOR and CLICOLOR_FORCE are honoured)", set_color},
    {"-v,--verbose", "", Takes::none, everywhere, true, g_output, "What is where, and notes",
     set_switch<&Options::verbose>},
    {"--quiet", "", Takes::none, everywhere, true, g_output, "Errors only on stderr",
     set_switch<&Options::quiet>},
    {"--log-level", "LEVEL", Takes::one, everywhere, true, g_output,
     "off, error, warn, info, debug or trace", set_log_level},

    {"--verify", "TRACE", Takes::several, answer | comparing, false, g_command,
     "Compare with reference traces (files or folders)", set_list<&Options::traces>},
    {"-o,--output", "FILE", Takes::one, record, false, g_command, "Trace to write",
     set_name<&Options::output>},
    {"--check", "", Takes::none, inspect, false, g_command, "Read and hash every byte",
     set_switch<&Options::check>},
    {"--hashes", "FILE", Takes::one, inspect, false, g_command,
     "With --check: write the hashes, or compare with those in FILE", set_name<&Options::hashes>},
    {"--shape", "NAME", Takes::one, plan_, false, g_command,
     "Instead of a model: deepseek-v4.1-flash", set_name<&Options::shape>},
    {"--drive", "RATE", Takes::one, plan_, false, g_command,
     "Take the drive to give RATE a second, like 8.8GB", set_drive_rate},
    {"--only", "PARTS", Takes::one, bench, false, g_command,
     "Of decode,prefill,gemv,drive,split,prompts,ladder", set_only},
};

}  // namespace

std::vector<std::string> OptionSpec::flags() const {
    std::vector<std::string> out;
    std::string_view rest = names;
    while (!rest.empty()) {
        size_t comma = rest.find(',');
        out.emplace_back(rest.substr(0, comma));
        rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return out;
}

std::vector<std::string> OptionSpec::long_names() const {
    std::vector<std::string> out;
    for (const std::string& flag : flags()) {
        if (flag.starts_with("--")) out.push_back(flag.substr(2));
    }
    return out;
}

std::span<const OptionSpec> option_table() {
    return table;
}

std::string variable_name(std::string_view long_name) {
    std::string out = "SLUICE_";
    for (char c : long_name) {
        out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return out;
}

const OptionSpec* find_lasting(std::string_view long_name) {
    for (const OptionSpec& spec : table) {
        if (!spec.lasting) continue;
        for (const std::string& name : spec.long_names()) {
            if (name == long_name) return &spec;
        }
    }
    return nullptr;
}

}  // namespace sluice
