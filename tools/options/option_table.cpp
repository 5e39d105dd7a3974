#include "tools/options/option_table.h"

#include <cctype>

#include "tools/options/option_setters.h"

namespace sluice {

namespace {

using namespace option;

constexpr Commands answer = bit(Command::answer);
constexpr Commands serve = bit(Command::serve);
constexpr Commands batch = bit(Command::batch);
constexpr Commands record = bit(Command::record);
constexpr Commands inspect = bit(Command::inspect);
constexpr Commands simulating = bit(Command::simulate);
constexpr Commands bench = bit(Command::bench);
constexpr Commands planning = bit(Command::plan);
constexpr Commands testing = bit(Command::selftest);
constexpr Commands samples = answer | serve | batch;
constexpr Commands asks = answer | record;
constexpr Commands runs_model = answer | comparing | serve | batch | record | bench;
constexpr Commands plans = runs_model | planning;
constexpr Commands has_model = plans | inspect;
constexpr Commands everywhere = has_model | simulating | testing;

constexpr const char* general = "General";
constexpr const char* network = "Network";
constexpr const char* model = "Model";
constexpr const char* prompt = "Prompt";
constexpr const char* sampling = "Sampling";
constexpr const char* thinking = "Reasoning";
constexpr const char* machine = "Machine";
constexpr const char* output = "Output";
constexpr const char* task = "Task";

constexpr Word<Reasoning> reasonings[] = {
    {"on", Reasoning::on}, {"off", Reasoning::off}, {"auto", Reasoning::automatic}};
constexpr Word<int> efforts[] = {{"low", 50}, {"high", 75}, {"max", 100}};
constexpr Word<CpuIsa> isas[] = {{"auto", CpuIsa::automatic},
                                 {"scalar", CpuIsa::scalar},
                                 {"avx2", CpuIsa::avx2},
                                 {"avx512", CpuIsa::avx512},
                                 {"amx", CpuIsa::amx}};
constexpr Word<std::optional<uint32_t>> shares[] = {{"auto", {}}, {"off", 0}};
constexpr Word<uint32_t> off[] = {{"off", 0}};
constexpr Word<bool> switches[] = {{"on", true}, {"off", false}};
constexpr Word<IndexKeys> index_keys[] = {{"own", IndexKeys::own},
                                          {"reference", IndexKeys::reference}};
constexpr Word<ColorChoice> colors[] = {{"auto", ColorChoice::automatic},
                                        {"on", ColorChoice::on},
                                        {"always", ColorChoice::on},
                                        {"off", ColorChoice::off},
                                        {"never", ColorChoice::off}};
constexpr Word<log::Level> log_levels[] = {
    {"off", log::Level::off},   {"error", log::Level::error}, {"warn", log::Level::warn},
    {"info", log::Level::info}, {"debug", log::Level::debug}, {"trace", log::Level::trace}};

using O = Options;
using E = EngineOptions;
using S = ServeOptions;

// names, value, traits, commands, group, help, setter. Help shows the rows of a group in this
// order; options are set in this order.
constexpr OptionSpec table[] = {
    {"-h,--help", "", once | informative, everywhere, general, "Show this help", shows<Show::help>},
    {"--help-advanced", "", once | informative, everywhere, general, "Show the advanced options",
     shows<Show::help_advanced>},
    {"--help-markdown", "", once | informative | hidden, answer, general, "tools/OPTIONS.md",
     shows<Show::help_markdown>},
    {"--version", "", once | informative, answer, general, "Show the version and the build",
     shows<Show::version>},
    {"--list-devices", "", once | informative, answer, general,
     "List the devices that can run a model", shows<Show::devices>},
    {"--config", "FILE", once, everywhere, general,
     "Read this configuration file instead of the default ones", name<&O::config_file>},

    {"--verify", "TRACE...", once | several, answer | comparing, task,
     "Compare the logits with traces (files or folders)", names<&O::traces>},
    {"-o,--output", "FILE", once, record | batch, task,
     "File to write: record's trace, batch's results", name<&O::output>},
    {"--check", "", once, inspect, task, "Read every byte, hash it and check its values",
     on_off<&O::check>},
    {"--hashes", "FILE", once, inspect, task,
     "With --check: compare with the hashes in FILE; a new FILE is written", name<&O::hashes>},
    {"--shape", "NAME", once, planning, task, "Plan for a known model without its files: {shapes}",
     name<&O::shape>},
    {"--drive", "RATE", once, planning, task,
     "Assume a drive of this speed, such as 8.8GB (per second), instead of measuring", drive_rate},
    {"--only", "PARTS", once, bench, task,
     "Measure only these parts, separated by commas: decode, prefill (both: the model), gemv "
     "(expert kernels), drive (reads), split (experts on GPU, CPU and both), prompts (512, 4096 "
     "and 8192 tokens), ladder (what each step of overlap gains)",
     bench_parts},

    {"--attach,--server", "URL", advanced, answer, network,
     "Let the server at URL (of sluice serve: http://127.0.0.1:8080) answer instead of a model "
     "that "
     "is loaded here. As SLUICE_SERVER: only if it serves MODEL, or if no MODEL is given (off: "
     "none)",
     attach},
    {"--host", "NAME", ordinary, serve, network,
     "Address or name to listen on (default: 127.0.0.1, only this machine; 0.0.0.0: all of IPv4)",
     name<&S::host>},
    {"--port", "N", ordinary, serve, network, "Port (default: 8080; 0: any free one)",
     integer<&S::port, 0, 65535>},
    {"--api-key", "KEY|@FILE", repeated | for_servers, serve | answer, network,
     "serve: ask for this key, or one of those in FILE, a line each; with --attach: give it. "
     "Others "
     "see a KEY in the list of processes: better @FILE or SLUICE_API_KEY",
     names<&S::api_keys>},
    {"--alias", "NAME", ordinary, serve, network, "Name of the model (default: its folder's)",
     text<&S::alias>},
    {"--allowed-host", "NAME", repeated, serve, network,
     "Another name under which clients reach the server, such as that of a proxy",
     names<&S::allowed_hosts>},
    {"--cors", "ORIGIN", repeated, serve, network,
     "Let pages of this origin use the server: https://example.org (*: of any)",
     names<&S::origins>},
    {"--queue", "N", ordinary, serve, network,
     "Requests that may wait (default: 16); more are refused with 503",
     integer<&S::queue, 1, 100000>},
    {"--max-connections", "N", advanced, serve, network,
     "Connections at the same time (default: 64); more are refused with 503",
     integer<&S::connections, 1, 10000>},
    {"--max-body", "SIZE", advanced, serve, network, "Largest request body (default: 16MiB)",
     size<&S::body_max>},
    {"--max-headers", "SIZE", advanced, serve, network,
     "Most bytes of a request's address and headers, 64KiB or less (default: 32KiB)", header_max},
    {"--request-timeout", "SECONDS", advanced, serve, network,
     "Time for a request to arrive, from its first byte to its last (default: 30)",
     integer<&S::request_timeout_s, 1, 86400>},
    {"--write-timeout", "SECONDS", advanced, serve, network,
     "Time for a client to take what is sent (default: 30)",
     integer<&S::write_timeout_s, 1, 86400>},

    {"-m,--model", "MODEL", repeated, has_model, model,
     "Model folder or Hugging Face id; repeat -m for shards on other drives", names<&E::locations>},
    {"--mirror", "DIR", repeated, has_model, model,
     "Folder with copies of shards on another drive; both are read", mirrors},
    {"--revision", "NAME", advanced, has_model, model, "Branch, tag or commit of a Hugging Face id",
     text<&E::revision>},
    {"--offline", "", advanced, has_model, model,
     "No effect, because nothing is ever downloaded; accepted for compatibility", nothing},

    {"-p,--prompt", "TEXT", once, asks, prompt,
     "Answer once (-: read standard input); piped input is appended to TEXT", text<&O::prompt>},
    {"-f,--file", "FILE", once, asks, prompt, "Read the prompt from a file", name<&O::prompt_file>},
    {"--system-prompt", "TEXT", settable, asks, prompt, "System message", text<&O::system_prompt>},
    {"--system-prompt-file", "FILE", ordinary, asks, prompt, "Read the system message from a file",
     name<&O::system_prompt_file>},
    {"--session", "FILE", once, answer, prompt,
     "Continue the conversation in FILE and add to it; a new FILE is written",
     name<&O::session_file>},
    {"--messages", "FILE", once | advanced, asks, prompt,
     "Answer the conversation in FILE, a JSON list of messages (-: standard input)",
     name<&O::messages_file>},
    {"-n,--predict,--n-predict,--max-tokens", "N", settable, samples | asks | bench, prompt,
     "Maximum tokens to generate (-1: no limit)", predict},
    {"-c,--ctx-size", "N", ordinary, plans, prompt,
     "Context length in tokens (default: the model's, at most 8192)",
     integer<&E::context, 1, int32_max>},
    {"--stop", "TEXT", repeated | settable, samples, prompt, "Stop before TEXT (up to 16 times)",
     stop},
    {"--format", "json|FILE", advanced, answer, prompt,
     "Answer with a JSON object, or with JSON that is valid under the JSON schema in FILE",
     name<&O::format>},
    {"--ignore-eos", "", advanced, samples, prompt, "Do not stop at an end token",
     on_off<&O::ignore_eos>},
    {"--loop-guard", "N", advanced | settable, samples, prompt,
     "Stop when the last N tokens repeat one sequence at least four times (0: off)", loop_guard},

    {"--temp,--temperature", "X", settable, samples, sampling,
     "Temperature, 0: greedy (default: generation_config.json, or 1.0)",
     real<&O::temperature, RealRange{0, infinity, false, true}>},
    {"--top-k", "N", settable, samples, sampling, "Sample only from the N best tokens (0: all)",
     integer<&O::top_k, 0, int32_max>},
    {"--top-p", "X", settable, samples, sampling,
     "Nucleus sampling (default: generation_config.json, or 0.95)",
     real<&O::top_p, RealRange{0, 1, true, false}>},
    {"--min-p", "X", settable, samples, sampling,
     "Sample only tokens with at least X times the highest probability",
     real<&O::min_p, RealRange{0, 1, false, true}>},
    {"--repeat-penalty", "X", settable, samples, sampling,
     "Divide the logits of tokens already seen by X (1: off)",
     real<&O::repeat_penalty, RealRange{0, infinity, true, true}>},
    {"-s,--seed", "N", settable, samples | asks | bench, sampling,
     "Random seed (-1: chosen at random and printed by -v and --stats)", seed},

    {"--reasoning", "on|off|auto", settable, samples | asks, thinking,
     "Reason before answering (auto: only with --reasoning-effort)",
     choice<&O::reasoning, reasonings>},
    {"--reasoning-effort", "E", settable, samples | asks, thinking,
     "low, high, max or 1 to 100; turns reasoning on", integer_or<&O::effort, 1, 100, efforts>},
    {"--show-reasoning", "", ordinary, answer, thinking,
     "Show the reasoning on stderr even if it is not a terminal", on_off<&O::show_reasoning>},

    {"-t,--threads", "N", ordinary, plans | testing, machine,
     "CPU threads (default: one per CPU that the process may use)", integer<&E::threads, 1, 1024>},
    {"--device", "NAME", ordinary, plans | testing, machine,
     "Where to run: auto, cpu, cuda or cuda:N (auto: a GPU if present)", device},
    {"--ram", "SIZE", ordinary, plans, machine,
     "RAM budget, such as 12GiB (default: free RAM less a margin)", size<&E::ram>},
    {"--vram", "SIZE", needs_gpu, plans, machine,
     "VRAM budget, such as 7.3GiB (default: free VRAM less a margin)", size<&E::vram>},
    {"--tune", "", once, runs_model, machine,
     "Measure for 35 s how to read this drive fastest; remember the result", tune},
    {"--no-calibrate", "", advanced, runs_model, machine,
     "Do not calibrate reads at the first start (2 s)", no_calibrate},
    {"--cpu-isa", "NAME", advanced, plans | testing, machine,
     "CPU instruction set: auto, scalar, avx2, avx512 or amx", choice<&E::isa, isas>},
    {"--cache-slots", "N|off", advanced, plans | simulating, machine,
     "Experts kept in RAM (default: what --ram leaves); simulate takes a list: 64,128",
     cache_slots},
    {"--cache-policy", "NAME", advanced, runs_model | simulating, machine,
     "Eviction policy: {policies}; simulate takes a list, which may include belady", cache_policy},
    {"--predictor", "NAME", advanced, runs_model | simulating, machine,
     "What guesses the next layer's experts: {predictors}; simulate takes a list", predictor},
    {"--prefetch", "N|off", advanced, runs_model | simulating, machine,
     "Maximum experts prefetched per layer (default: adaptive, 0 to 4)",
     integer_or<&E::prefetch, 0, 64, off>},
    {"--warm-start", "on|off", advanced, samples, machine,
     "Read what the last run kept in RAM, in the background, and remember what this one keeps "
     "(default: on)",
     choice<&O::warm_start, switches>},
    {"--chunk", "N", advanced, plans, machine,
     "Prompt tokens processed at once (default: what fits)", integer<&E::chunk, 1, 1 << 20>},
    {"--vram-slots", "N|off", advanced | needs_gpu, plans, machine,
     "Experts kept in VRAM (default: what --vram leaves)",
     integer_or<&E::vram_slots, 0, int32_max, off>},
    {"--cpu-experts", "auto|off|P%", advanced | needs_gpu, plans, machine,
     "Share of the experts outside VRAM that the CPU computes (auto: from measured rates)",
     integer_or<&E::cpu_experts, 0, 100, shares, '%'>},
    {"--launches", "HOW", advanced | needs_gpu, runs_model, machine,
     "How to launch GPU kernels: auto, plain, overlap, graphs or both (auto: overlap where the GPU "
     "supports it, else graphs)",
     launches},
    {"--link", "paced:RATE", advanced | needs_gpu, plans, machine,
     "Simulate a slower link to the GPU, such as paced:14GB (per second)", link_rate},
    {"--skip-selftest", "", advanced, runs_model, machine,
     "Skip the kernel check at the first start on a GPU", on_off<&E::skip_selftest>},
    {"--io", "NAME", advanced, plans, machine,
     "How to read files: auto, uring, threads, or paced:RATE[,LATENCY] to simulate a slower drive, "
     "such as "
     "paced:8.8GB,80us (several folders, in order: paced:8.8GB+4.4GB)",
     io_engine},
    {"--io-depth", "N", advanced, plans, machine, "Reads in flight per drive (default: 64)",
     integer<&E::ring_depth, 1, 4096>},
    {"--experts-in-flight", "N", advanced, plans, machine,
     "Experts read at once per drive (default: 8, or as measured)",
     integer<&ExpertTuning::in_flight_max, 1, 64>},
    {"--expert-parts", "N", advanced, plans, machine,
     "Parallel reads per byte range of an expert (default: 2, or as measured)",
     integer<&ExpertTuning::parts, 1, 64>},
    {"--prompt-cache", "DIR[:SIZE]|on|off", advanced, samples, machine,
     "Keep what was read of prompts in DIR, at most SIZE (default: 4GiB), so that no prompt is "
     "read twice, also by later runs (on: ~/.cache/sluice/prompts; default: on except for one "
     "answer without --session)",
     prompt_cache},
    {"--index-keys", "own|reference", advanced, answer | comparing | record, machine,
     "reference: decode with the index keys of the official program, including its bug; only for "
     "models whose program has it",
     choice<&E::index_keys, index_keys>},

    {"--json", "", once, answer | inspect | simulating | bench | planning, output,
     "Print one JSON object on stdout", on_off<&O::json>},
    {"--stats", "", ordinary, answer, output, "Print statistics of the run on stderr",
     on_off<&O::stats>},
    {"--show-timings", "", advanced, answer, output, "Print the speed line even with --quiet",
     on_off<&O::show_timings>},
    {"--no-stream", "", advanced, answer, output, "Print the answer only when complete",
     on_off<&O::no_stream>},
    {"--profile", "FILE", once | advanced, runs_model & ~serve, output,
     "Write a profile of where time goes, for ui.perfetto.dev", name<&O::profile_file>},
    {"--record-routes", "FILE", once | advanced, answer | comparing, output,
     "Write the experts that the routers chose and those that were guessed, token by token, for "
     "sluice simulate: each pass is appended to FILE.XXXXXX, which becomes FILE at the end of the "
     "run; guesses are computed even with prefetch off",
     name<&E::record_routes>},
    {"--color", "on|off|auto", ordinary, everywhere, output,
     "Colour on stderr (auto: respects NO_COLOR and CLICOLOR_FORCE)", choice<&O::color, colors>},
    {"-v,--verbose", "", ordinary, everywhere, output, "Show memory placement and notes",
     on_off<&O::verbose>},
    {"--quiet", "", ordinary, everywhere, output, "Print only errors on stderr", on_off<&O::quiet>},
    {"--log-level", "LEVEL", advanced, everywhere, output,
     "Log messages on stderr: off, error, warn, info, debug or trace",
     choice<&O::log_level, log_levels>},
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

const OptionSpec* find_option(std::string_view long_name) {
    for (const OptionSpec& spec : table) {
        for (const std::string& name : spec.long_names()) {
            if (name == long_name) return &spec;
        }
    }
    return nullptr;
}

}  // namespace sluice
