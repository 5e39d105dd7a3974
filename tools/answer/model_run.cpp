#include "tools/answer/model_run.h"

#include <sys/random.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "engine/load/cache_file.h"
#include "engine/model/model.h"
#include "io/checkpoint/model_folder.h"
#include "io/clock.h"
#include "io/counted.h"
#include "io/file.h"
#include "io/format.h"
#include "io/json.h"
#include "io/path_access.h"
#include "io/ring/ring_paced.h"
#include "io/text.h"
#include "tools/answer/answer_format.h"
#include "tools/answer/messages.h"
#include "tools/options/numbers.h"
#include "tools/options/user_text.h"
#include "tools/terminal/line_reader.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

// One is being made while four are kept.
constexpr uint32_t prompt_snapshots = 5;

void drop_line_ends(std::string& text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
}

// The sampling of the folder's generation_config.json.
Result<SamplerOptions> read_sampling(const ModelFolder& folder) {
    constexpr const char* name = "generation_config.json";
    const auto path = folder.path / name;
    if (!is_there(path)) return model_sampling("");
    auto text = read_text(path, uint64_t{1} << 20);
    if (!text) return tl::unexpected(text.error());
    auto sampler = model_sampling(*text);
    if (sampler) return sampler;
    const std::vector<std::string> files = {name};
    return fail(sampler.error().code, cat(printable(path.string()), ": ", sampler.error().message,
                                          "; ", fetch_advice(folder, files)));
}

std::string placement_text(const Engine& engine) {
    std::string out = cat(engine.device_name(), "; ", engine.io_name(), "\n");
    for (const auto& line : engine.placement()) {
        out += formatted("  {:<5} {:>10}  {}\n", line.device, size_text(line.bytes), line.what);
    }
    return out;
}

// A model of another kind is named before files of it are missed.
Result<void> check_model_type(const ModelFolder& folder) {
    const auto text = read_text(folder.path / "config.json", uint64_t{1} << 20);
    const auto config = text ? Json::parse(*text) : tl::unexpected(text.error());
    const auto type = config ? (*config)["model_type"].string() : tl::unexpected(config.error());
    if (!type) return {};  // said when it is read
    const auto model = find_model(*type);
    if (model) return {};
    return within(printable((folder.path / "config.json").string()), model.error());
}

void print_placement(const Engine& engine, bool notes) {
    std::fputs(placement_text(engine).c_str(), stderr);
    if (!notes) return;
    for (const auto& note : engine.notes()) std::fprintf(stderr, "  %s\n", note.c_str());
}

// "name" of a repository org/name in the Hugging Face cache, otherwise the name of the folder.
std::string model_name(const ModelFolder& folder) {
    size_t slash = folder.repository.rfind('/');
    if (slash != std::string::npos) return folder.repository.substr(slash + 1);
    std::filesystem::path path = folder.path;
    if (!path.has_filename()) path = path.parent_path();  // a trailing slash
    return path.filename().string();
}

// The field's value, checked against `range`, or `otherwise` when it is absent or null.
Result<double> default_of(const Json& config, const char* name, double otherwise,
                          const RealRange& range) {
    Json value = config[name];
    if (value.is_null()) return otherwise;
    auto number = value.number();
    if (!number) return number;
    if (!range.holds(*number)) {
        return fail(Code::corrupt,
                    cat(name, " is ", number_text(*number), ", must be in ", range.text()));
    }
    return *number;
}

// "chat", "thinking, effort 75". An effort that the model does not know is an error.
Result<std::string> mode_text(const ModelRun& run) {
    if (run.prompt.mode == PromptMode::chat) return std::string("chat");
    const bool needed = needs_wording(*run.chat, run.prompt);
    if (needed && !run.wording) return tl::unexpected(run.wording.error());
    auto effort = run.chat->effort(run.prompt.effort, needed ? &*run.wording : nullptr);
    if (!effort) return tl::unexpected(std::move(effort).error());
    return cat("thinking", effort->shown.empty() ? "" : cat(", effort ", effort->shown));
}

PromptCacheOptions cache_options(const Options& options) {
    PromptCacheOptions out{options.prompt_cache_folder, options.prompt_cache_bytes};
    if (!options.prompt_cache.value_or(false) || !out.folder.empty()) return out;
    const std::string folder = cache_folder();
    if (folder.empty()) {
        log::warn_once("prompt cache folder", cat("what is read of prompts ", not_remembered()));
    } else {
        out.folder = std::filesystem::path(folder) / "prompts";
    }
    return out;
}

}  // namespace

Options with_prompt_cache(Options options) {
    options.prompt_cache = options.prompt_cache.value_or(true);
    return options;
}

uint64_t draw_seed() {
    uint64_t seed = 0;
    if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
        seed = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    }
    return seed >> 11;
}

Result<SamplerOptions> model_sampling(const std::string& generation_config) {
    constexpr double infinity = HUGE_VAL;
    auto config = Json::parse(generation_config.empty() ? "{}" : generation_config);
    if (!config) return tl::unexpected(config.error());
    auto greedy = (*config)["do_sample"].boolean();
    const double usual = greedy && !*greedy ? 0.0 : 1.0;  // 1.0 and 0.95: the model card's
    auto temperature = default_of(*config, "temperature", usual, {0, infinity, false, true});
    auto top_p = default_of(*config, "top_p", 0.95, {0, 1, true, false});
    auto min_p = default_of(*config, "min_p", 0, {0, 1, false, true});
    auto top_k = default_of(*config, "top_k", 0, {0, 2147483647.0});
    auto penalty = default_of(*config, "repetition_penalty", 1, {0, infinity, true, true});
    for (const auto* value : {&temperature, &top_p, &min_p, &top_k, &penalty}) {
        if (!*value) return tl::unexpected(value->error());
    }
    if (usual == 0.0) temperature = 0.0;
    SamplerOptions out;
    out.temperature = *temperature;
    out.top_p = *top_p;
    out.min_p = *min_p;
    out.top_k = static_cast<int32_t>(*top_k);
    out.repetition_penalty = *penalty;
    out.seed = draw_seed();
    return out;
}

std::function<void(double seconds)> measuring_notice(const Options& options,
                                                     const Terminal& terminal, StatusLine& status) {
    if (options.quiet) return {};
    return [&status, line = !terminal.stderr_tty](double seconds) {
        const std::string text = cat("measuring the fastest way to read experts, for about ",
                                     static_cast<int64_t>(std::ceil(seconds)), " s");
        if (line) std::fprintf(stderr, "%s\n", text.c_str());
        status.show(text);
    };
}

Result<ModelRun> load_model(const Options& options, const Terminal& terminal, bool report_placement,
                            const std::function<void(uint64_t, uint64_t)>& progress) {
    ModelRun run;
    auto format = format_of(options.format);
    if (!format) return tl::unexpected(format.error());
    run.format = std::move(*format);
    auto folder = find_model_folder(options.engine.locations.front(), options.engine.revision);
    if (!folder) return tl::unexpected(folder.error());
    if (auto known = check_model_type(*folder); !known) return tl::unexpected(known.error());
    auto sampler = read_sampling(*folder);
    if (!sampler) return tl::unexpected(sampler.error());
    run.sampler = *sampler;

    StatusLine status(terminal.stderr_tty && !options.quiet);
    auto start = Clock::now();
    const bool tune = options.engine.calibrate == Calibrate::thorough;
    const auto loading = [&](uint64_t done, uint64_t all) {
        status.show(cat("loading ", size_text(done), " of ", size_text(all)));
        if (progress) progress(done, all);
    };
    EngineOptions wanted = options.engine;
    wanted.warm_start = options.keeps_warm();
    if (options.prompt_cache.value_or(false)) wanted.prompt_snapshots = prompt_snapshots;
    wanted.measuring = measuring_notice(options, terminal, status);
    auto engine = Engine::load(wanted, loading, cancel_flag());
    status.erase();
    if (!engine) return tl::unexpected(engine.error());
    run.must_finish = std::make_unique<MustFinish>();
    run.engine = std::move(*engine);
    run.chat = run.engine->model().chat;
    run.wording = PromptWording::load(*folder, *run.chat->wording);
    auto session = run.engine->session();
    if (!session) return tl::unexpected(session.error());
    run.session = std::move(*session);
    run.session->set_cancel(cancel_flag());
    run.prompts = std::make_unique<PromptCache>(*run.engine, *run.session, cache_options(options));
    run.facts.load_s = seconds_since(start);
    run.facts.model = model_name(*folder);
    run.facts.device = run.engine->device_name();
    run.facts.io_name = run.engine->io_name();
    run.facts.placement = placement_text(*run.engine);
    run.facts.load = run.engine->load_facts();
    run.facts.pace = paces_text(options.engine.paces);
    run.facts.context = run.engine->settings().context;
    run.facts.expert_bytes = run.engine->expert_bytes();
    run.facts.end_tokens = run.engine->config().end_tokens;
    apply_options(run, options);
    auto mode = mode_text(run);
    if (!mode) return tl::unexpected(std::move(mode).error());
    run.facts.mode = std::move(*mode);
    const bool noted = options.stats || (report_placement && options.verbose);
    if (tune && !options.quiet && !noted) {
        std::fprintf(stderr, "%s\n", run.facts.load.reads.c_str());
    }
    if (report_placement && !options.quiet) print_placement(*run.engine, options.verbose);
    if (options.verbose) {
        const SamplerOptions& s = run.sampler;
        const std::string text = formatted(
            "sampling: temperature {:g}, top-k {}, top-p {:g}, min-p {:g}, repeat penalty {:g}, "
            "seed {}\n",
            s.temperature, s.top_k, s.top_p, s.min_p, s.repetition_penalty, s.seed);
        std::fputs(text.c_str(), stderr);
    }
    return run;
}

std::string model_name(const Options& options) {
    const std::string& location = options.engine.locations.front();
    auto folder = find_model_folder(location, options.engine.revision);
    return folder ? model_name(*folder) : location;
}

void apply_options(ModelRun& run, const Options& options) {
    bool thinking = options.thinking();
    run.prompt.mode = thinking ? PromptMode::thinking : PromptMode::chat;
    if (options.effort) run.prompt.effort = options.effort;
    SamplerOptions& sampler = run.sampler;
    sampler.temperature = options.temperature.value_or(sampler.temperature);
    sampler.top_p = options.top_p.value_or(sampler.top_p);
    sampler.min_p = options.min_p.value_or(sampler.min_p);
    sampler.top_k = options.top_k.value_or(sampler.top_k);
    sampler.repetition_penalty = options.repeat_penalty.value_or(sampler.repetition_penalty);
    sampler.seed = options.seed.value_or(sampler.seed);
    run.facts.seed = sampler.seed;
}

Result<std::string> system_message(const Options& options) {
    if (options.system_prompt_file.empty()) return options.system_prompt;
    auto text = read_user_file("--system-prompt-file", options.system_prompt_file);
    if (!text) return text;
    drop_line_ends(*text);
    return text;
}

Result<std::vector<Message>> messages_of(const Options& options) {
    const std::string& path = options.messages_file;
    auto text = path == "-" ? read_standard_input() : read_user_file("--messages", path);
    if (!text) return tl::unexpected(text.error());
    return parse_messages(cat("--messages ", printable(path)), *text);
}

namespace {

// Lines that are typed, up to Ctrl-D: the terminal's own lines end after 4,095 bytes.
Result<std::string> typed_text(const Terminal& terminal) {
    // First: whoever sees the invitation may type at once.
    const auto reader = make_line_reader(terminal, "");
    std::fprintf(stderr, "sluice: type the prompt; Ctrl-D on an empty line ends it\n");
    std::string text;
    while (true) {
        const LineReader::Line line = reader->read("");
        if (line.event == LineReader::Event::end) return text;
        if (line.event != LineReader::Event::line || end_requested())
            return fail(Code::interrupted, "interrupted");
        text += line.text + '\n';
    }
}

}  // namespace

Result<std::string> user_prompt(const Options& options, const Terminal& terminal) {
    std::string prompt;
    bool from_input = options.prompt == "-";
    if (options.prompt && !from_input) prompt = *options.prompt;
    if (!options.prompt_file.empty()) {
        auto text = read_user_file("-f", options.prompt_file);
        if (!text) return text;
        prompt = *text;
        drop_line_ends(prompt);
    }
    if (terminal.stdin_open && (from_input || !terminal.stdin_tty)) {
        auto input = terminal.stdin_tty ? typed_text(terminal) : read_standard_input();
        if (!input) return tl::unexpected(input.error());
        if (auto valid = check_utf8("standard input", *input); !valid) {
            return tl::unexpected(valid.error());
        }
        drop_byte_order_mark(*input);
        drop_line_ends(*input);
        if (!prompt.empty() && !input->empty()) {
            // Also with --quiet: in a loop that reads lines they may be the loop's own input.
            std::fprintf(stderr, "sluice: %s of standard input appended to the prompt\n",
                         counted(input->size(), "byte").c_str());
            prompt += '\n';
        }
        prompt += *input;
    }
    if (prompt.empty()) {
        return fail(Code::usage,
                    "the prompt is empty: pass -p TEXT, -f FILE or text on standard input");
    }
    return prompt;
}

}  // namespace sluice
