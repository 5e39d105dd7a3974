#include "tools/options/options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>

#include "io/file.h"
#include "io/path_access.h"
#include "io/text.h"
#include "tools/options/config_file.h"
#include "tools/options/option_table.h"
#include "tools/options/stray_names.h"
#include "tools/options/user_text.h"

namespace sluice {

namespace {

struct CommandText {
    Command command;
    const char* name;
    const char* usage;
    const char* what;
};

constexpr CommandText command_texts[] = {
    {Command::answer, "sluice", "sluice",
     "Runs a mixture-of-experts model streamed from its unmodified safetensors files.\n\n"
     "  sluice MODEL                       chat in the terminal\n"
     "  sluice MODEL -p TEXT               answer once (or from a pipe)\n"
     "  sluice MODEL --verify TRACE...     compare with reference traces\n"
     "  sluice record MODEL -o FILE        write a trace\n"
     "  sluice inspect MODEL               tensors, bytes, checks\n"
     "  sluice simulate ROUTES...          replay recorded routes through cache policies\n"
     "  sluice bench MODEL                 measure\n"
     "  sluice plan MODEL                  what fits where, and how fast it can be\n"
     "  sluice selftest                    a card's kernels against the plain reference\n"
     "  sluice COMMAND --help              the options of a command"},
    {Command::record, "record", "sluice record -o FILE",
     "Answers greedily and writes tokens and best logits as a trace."},
    {Command::inspect, "inspect", "sluice inspect",
     "Lists tensor classes and bytes of a checkpoint and checks it."},
    {Command::simulate, "simulate", "sluice simulate",
     "Replays recorded routes through cache policies and predictors."},
    {Command::bench, "bench", "sluice bench",
     "Measures decode, prefill, expert kernels and the drive."},
    {Command::plan, "plan", "sluice plan",
     "Says before a run what takes how much memory and how fast it can be: from the config and "
     "the\n"
     "headers alone, and from rates measured in a few seconds, given, or assumed."},
    {Command::selftest, "selftest", "sluice selftest",
     "Compares every kernel of the device with the plain reference, by value."},
};

// The text of every source, most important first.
struct Sources {
    std::map<const OptionSpec*, Setting> flags;
    const char* (*environment)(const char* name);
    std::vector<std::vector<std::pair<const OptionSpec*, Setting>>> files;
};

Result<std::vector<std::pair<const OptionSpec*, Setting>>> read_settings(
    const std::filesystem::path& path) {
    auto text = read_text(path, 1 << 20);
    if (!text) return tl::unexpected(named_file_error(text.error()));
    drop_byte_order_mark(*text);
    auto entries = parse_config_file(path.string(), *text);
    if (!entries) return tl::unexpected(entries.error());
    std::vector<std::pair<const OptionSpec*, Setting>> out;
    for (auto& entry : *entries) {
        std::string source = cat(path.string(), " line ", entry.line, ": ", entry.key);
        const OptionSpec* spec = find_lasting(entry.key);
        if (!spec)
            return fail(Code::usage, cat(source, ": unknown key (", key_meant(entry.key), ")"));
        bool list = spec->takes == Takes::repeated || spec->takes == Takes::several;
        if (entry.values.empty() || (!list && entry.values.size() != 1)) {
            return fail(Code::usage, source + ": takes one value");
        }
        out.emplace_back(spec, Setting{source, std::move(entry.values)});
    }
    return out;
}

// The value that the command line gives to an option; null: none.
const std::string* typed(const Sources& sources, std::string_view long_name) {
    for (const auto& [spec, setting] : sources.flags) {
        for (const auto& name : spec->long_names()) {
            if (name == long_name) return &setting.values.back();
        }
    }
    return nullptr;
}

// Whether a typed flag leaves no room for what a variable or a file says of `spec`.
bool overruled(const OptionSpec& spec, const Sources& sources) {
    constexpr std::pair<const char*, const char*> rivals[] = {
        {"quiet", "stats"},
        {"quiet", "verbose"},
        {"no-calibrate", "tune"},
        {"system-prompt", "system-prompt-file"}};
    const auto is = [&](const char* name) { return spec.long_names().front() == name; };
    const auto on = [&](const char* name) {
        const std::string* value = typed(sources, name);
        return value && *value != "off" && *value != "false";
    };
    for (const auto& [one, other] : rivals) {
        if ((is(one) && on(other)) || (is(other) && on(one))) return true;
    }
    const auto* reasoning = typed(sources, "reasoning");
    if (is("reasoning") && on("reasoning-effort")) return true;
    if (is("reasoning-effort") && reasoning && *reasoning == "off") return true;
    const std::string* device = typed(sources, "device");
    return device && *device == "cpu" &&
           (is("vram") || is("vram-slots") || is("cpu-experts") || is("link") || is("launches"));
}

std::optional<Setting> setting_for(const OptionSpec& spec, const Sources& sources) {
    if (auto flag = sources.flags.find(&spec); flag != sources.flags.end()) return flag->second;
    if (!spec.lasting || overruled(spec, sources)) return std::nullopt;
    for (const auto& name : spec.long_names()) {
        std::string variable = variable_name(name);
        const char* value = sources.environment(variable.c_str());
        if (value && value[0]) return Setting{variable, {value}};
    }
    for (const auto& file : sources.files) {
        for (const auto& [found, setting] : file) {
            if (found == &spec) return setting;
        }
    }
    return std::nullopt;
}

// "--stop=" gives CLI11 no value to take and it would eat the next argument: such an argument
// becomes two.
std::vector<std::string> split_empty_values(const std::vector<std::string>& arguments,
                                            Command command) {
    std::vector<std::string> out;
    for (size_t i = 0; i < arguments.size(); i++) {
        const std::string& argument = arguments[i];
        bool takes_next = false;
        std::string split;
        for (const auto& spec : option_table()) {
            if (!(spec.commands & bit(command)) || spec.takes == Takes::none) continue;
            for (const auto& name : spec.long_names()) {
                takes_next = takes_next || argument == "--" + name;
                if (argument == cat("--", name, "=")) split = "--" + name;
            }
            bool short_name = spec.names[1] != '-' && argument.size() == 2 &&
                              argument.compare(0, 2, spec.names, 2) == 0;
            takes_next = takes_next || short_name;
        }
        out.push_back(split.empty() ? argument : split);
        if (!split.empty()) out.emplace_back();
        if (takes_next && i + 1 < arguments.size()) out.push_back(arguments[++i]);
    }
    return out;
}

// CLI11's own words, on one line and without its class names.
std::string parse_message(const CLI::ParseError& error) {
    std::string text = error.what();
    for (char& c : text) {
        if (c == '\n') c = ' ';
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text + " (see sluice --help)";
}

// What a comparison has no use for: a flag would be without effect. A value that lasts waits in its
// variable or file for the next answer.
Result<void> check_comparing(const Sources& sources) {
    const auto given = [](const auto& flag) {
        return std::string_view(flag.first->names) == "--verify";
    };
    if (std::none_of(sources.flags.begin(), sources.flags.end(), given)) return {};
    for (const OptionSpec& spec : option_table()) {
        if ((spec.commands & comparing) || !sources.flags.contains(&spec)) continue;
        std::string names;
        for (const std::string& flag : spec.flags()) names += (names.empty() ? "" : "/") + flag;
        return fail(Code::usage, cat("--verify: ", names, " does not go with it; ",
                                     std::string_view(spec.group) == "Output"
                                         ? "its report is one line a trace"
                                         : "a trace says what is asked and how it is answered"));
    }
    return {};
}

// Flags of which one would be without effect. Only of those that were typed together: one of them
// may replace for a run what a variable or a file says.
Result<void> check_typed(const Sources& sources, Command command) {
    for (const auto& [spec, setting] : sources.flags) {
        if (spec->lasting || spec->takes != Takes::one || setting.values.size() < 2) continue;
        return fail(Code::usage, cat(spec->flags().front(), ": given ", setting.values.size(),
                                     " times; a run has room for one"));
    }
    if (command == Command::simulate) return {};
    const auto is = [&](const char* name, std::string_view value) {
        const std::string* found = typed(sources, name);
        return found && *found == value;
    };
    const std::string* guesses = typed(sources, "prefetch");
    if (is("predictor", "none") && guesses && *guesses != "off" && *guesses != "0") {
        return fail(Code::usage, "--predictor none: makes no guesses for --prefetch to follow");
    }
    const bool no_tier = is("vram-slots", "off") || is("vram-slots", "0") || is("device", "cpu");
    if ((is("cache-slots", "off") || is("cache-slots", "0")) && no_tier &&
        typed(sources, "cache-policy")) {
        return fail(Code::usage, "--cache-slots off: leaves no cache for --cache-policy");
    }
    if (is("quiet", "true") && is("stats", "true")) {
        return fail(Code::usage,
                    "--quiet and --stats contradict each other; --json has the same in numbers");
    }
    return {};
}

tl::unexpected<Error> located(Error error, const std::vector<FlagOrigin>& origins) {
    error.message = with_origins(std::move(error.message), origins);
    return tl::unexpected(std::move(error));
}

class Parser {
 public:
    explicit Parser(const CommandText& text) : text_(text), app_(text.what, text.usage) {
        app_.set_help_flag("-h,--help", "This text");
        app_.allow_windows_style_options(false);
        app_.get_formatter()->column_width(38);
        if (text.command == Command::answer) {
            app_.add_flag("--version", version_, "Version and what was built in")->group("Command");
            app_.add_flag("--list-devices", devices_, "Devices that can run a model")
                ->group("Command");
        }
        app_.add_option("--config", config_, "Configuration file to read instead of the usual ones")
            ->group("Output");
        add_positional();
        for (const auto& spec : option_table()) {
            if (spec.commands & bit(text.command)) add(spec);
        }
    }

    Result<Invocation> run(std::vector<std::string> arguments,
                           const char* (*environment)(const char* name)) {
        Invocation out;
        out.options.command = text_.command;
        std::reverse(arguments.begin(), arguments.end());
        try {
            app_.parse(std::move(arguments));
        } catch (const CLI::CallForHelp&) {
            out.show = Invocation::Show::help;
            out.help = help_text();
            return out;
        } catch (const CLI::ExtrasError& error) {
            const std::string unknown = unknown_command();
            return fail(Code::usage, unknown.empty() ? parse_message(error) : unknown);
        } catch (const CLI::ParseError& error) {
            return fail(Code::usage, parse_message(error));
        } catch (const std::exception& error) {
            return fail(Code::usage, cat("command line: ", printable(error.what())));
        }
        if (version_) out.show = Invocation::Show::version;
        if (devices_) out.show = Invocation::Show::devices;
        if (out.show != Invocation::Show::nothing) return out;
        auto sources = gather(environment);
        if (!sources) return tl::unexpected(sources.error());
        for (const auto& fits : {check_comparing(*sources), check_typed(*sources, text_.command)}) {
            if (!fits) return tl::unexpected(fits.error());
        }
        for (const auto& spec : option_table()) {
            if (!(spec.commands & bit(text_.command))) continue;
            auto setting = setting_for(spec, *sources);
            if (!setting) continue;
            if (!sources->flags.contains(&spec)) {
                out.origins.push_back({spec.flags(), setting->source});
            }
            if (auto done = spec.set(out.options, *setting); !done)
                return located(done.error(), out.origins);
        }
        out.options.route_files = routes_;
        return out;
    }

 private:
    // What stands where a command or a model goes and is none, with more behind it; else empty.
    std::string unknown_command() const {
        const bool word = !model_.empty() && model_.find('/') == std::string::npos;
        if (text_.command != Command::answer || !word || is_there(model_)) return "";
        std::vector<std::string> names;
        for (const CommandText& known : command_texts) {
            if (known.command != Command::answer) names.emplace_back(known.name);
        }
        const std::string near = nearest_word(model_, names);
        const std::vector<std::string> rest = app_.remaining();
        const bool flag = !rest.empty() && rest.front().starts_with("-");
        if (flag && near.empty()) return "";  // the flag is what is wrong
        return cat("unknown command \"", printable(model_), "\", and no such model",
                   near.empty() ? "" : cat("; did you mean ", near, "?"), " (see sluice --help)");
    }

    void add_positional() {
        if (text_.command == Command::simulate) {
            app_.add_option("ROUTES", routes_, "Files of --record-routes")->required();
        } else {
            app_.add_option("MODEL", model_, "Model folder, or a hub id in the Hugging Face cache");
        }
    }

    void add(const OptionSpec& spec) {
        if (spec.takes == Takes::none) {
            app_.add_flag(spec.names, spec.help)->group(spec.group);
            return;
        }
        CLI::callback_t keep = [](const CLI::results_t&) { return true; };
        CLI::Option* option = app_.add_option(spec.names, keep, spec.help);
        option->type_name(spec.value_name)->group(spec.group);
        if (spec.takes == Takes::several) {
            option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
        } else {
            // Of one run alone: all are kept, to be counted.
            const bool all = spec.takes == Takes::repeated || !spec.lasting;
            option->expected(1)->multi_option_policy(all ? CLI::MultiOptionPolicy::TakeAll
                                                         : CLI::MultiOptionPolicy::TakeLast);
        }
    }

    std::string help_text() {
        std::string text = app_.help();
        if (text_.command != Command::answer) return text;
        return text +
               "\nOptions are also variables (SLUICE_CTX_SIZE) and keys of config.toml (ctx-size), "
               "except those of\none run: " +
               once_only() +
               ";\nflag > variable > $XDG_CONFIG_HOME/sluice > /etc/sluice > "
               "default.\nExit status: 0 ok, 1 verify differs, 2 usage, 3 checkpoint, 4 memory or "
               "device,\n5 input/output, 6 numerical failure, 130 Ctrl-C, 143 SIGTERM, 129 "
               "SIGHUP,\n141 reader gone.\n";
    }

    // Options that are neither a variable nor a key.
    std::string once_only() const {
        std::string out;
        for (const auto& spec : option_table()) {
            if (spec.lasting || !(spec.commands & bit(text_.command))) continue;
            out += cat(out.empty() ? "--" : ", --", spec.long_names().front());
        }
        return out;
    }

    Result<Sources> gather(const char* (*environment)(const char* name)) {
        Sources sources;
        sources.environment = environment;
        for (const auto& spec : option_table()) {
            if (!(spec.commands & bit(text_.command))) continue;
            std::string name = "--" + spec.long_names().front();
            const CLI::Option* option = app_.get_option(name);
            Setting setting{name, option->results()};
            bool model = std::string_view(spec.names) == "-m,--model";
            if (model && !model_.empty()) setting.values.insert(setting.values.begin(), model_);
            if (!setting.values.empty()) sources.flags[&spec] = std::move(setting);
        }
        auto files = config_files(config_);
        if (!files) return tl::unexpected(files.error());
        for (const auto& path : *files) {
            auto settings = read_settings(path);
            if (!settings) return tl::unexpected(settings.error());
            sources.files.push_back(std::move(*settings));
        }
        return sources;
    }

    const CommandText& text_;
    CLI::App app_;
    bool version_ = false, devices_ = false;
    std::string config_, model_;
    std::vector<std::string> routes_;
};

// Two outputs in one file would leave one of them.
Result<void> check_outputs(const Options& o) {
    const std::pair<const char*, std::string> outputs[] = {
        {"--profile", o.profile_file},
        {"--record-routes", o.engine.record_routes},
        {"-o", o.output},
        {"--hashes", o.hashes}};
    const auto place = [](const std::string& path) {
        std::error_code error;
        const auto whole =
            std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
        return error ? std::filesystem::path(path) : whole;
    };
    for (const auto& one : outputs) {
        for (const auto& other : outputs) {
            if (&one >= &other || one.second.empty() || other.second.empty()) continue;
            if (place(one.second) != place(other.second)) continue;
            return fail(Code::usage, cat(one.first, " and ", other.first, ": both name ",
                                         printable(one.second), "; give each a file of its own"));
        }
    }
    return {};
}

// How an answer is asked for.
Result<void> check_answer(const Options& o) {
    auto refuse = [](const char* why) { return fail(Code::usage, why); };
    if (!o.system_prompt.empty() && !o.system_prompt_file.empty())
        return refuse("--system-prompt and --system-prompt-file: one system message, please");
    if (o.reasoning == Reasoning::off && o.effort)
        return refuse("--reasoning off: --reasoning-effort has no effect");
    const bool answers = o.command == Command::answer || o.command == Command::record;
    if (answers && o.engine.context > 0 && o.predict >= o.engine.context) {
        return fail(Code::usage,
                    cat("-n ", o.predict, ": does not fit beside a prompt into the ", "context of ",
                        o.engine.context, " tokens (-c); raise -c or lower -n"));
    }
    return {};
}

// What the options say together.
Result<void> check_together(const Options& o) {
    auto refuse = [](const char* why) { return fail(Code::usage, why); };
    if (!o.hashes.empty() && !o.check) return refuse("--hashes goes with --check");
    if (auto apart = check_outputs(o); !apart) return apart;
    if (o.command == Command::simulate || o.command == Command::selftest) return {};
    if (!o.shape.empty() && !o.engine.locations.empty())
        return refuse("--shape: stands in for a model; give one of them");
    if (o.engine.locations.empty() && o.shape.empty())
        return refuse(o.traces.empty()
                          ? "no model: sluice MODEL (see sluice --help)"
                          : "no model: it goes before --verify, which takes every name "
                            "that follows");
    if (!o.shape.empty() && !o.engine.mirrors.empty())
        return refuse("--shape: has no files; --mirror does not go with it");
    if (o.drive_rate > 0 && !o.engine.paces.empty())
        return refuse("--drive and --io paced: both say how fast the drive is; give one of them");
    if (o.prompt && !o.prompt_file.empty()) return refuse("-p and -f: one prompt, please");
    if (o.quiet && o.verbose) return refuse("--quiet and --verbose contradict each other");
    const bool compares = !o.traces.empty();
    if (auto fits = compares ? Result<void>() : check_answer(o); !fits) return fits;
    if (o.command != Command::record) return {};
    if (o.output.empty()) return refuse("record: -o FILE is missing");
    if (!o.messages_file.empty() && (o.prompt || !o.prompt_file.empty()))
        return refuse("--messages: brings the prompt; -p and -f do not go with it");
    return {};
}

}  // namespace

bool Options::thinking() const {
    if (reasoning == Reasoning::automatic) return effort.has_value();
    return reasoning == Reasoning::on;
}

Result<Invocation> parse_options(const std::vector<std::string>& arguments,
                                 const char* (*environment)(const char* name)) {
    const CommandText* text = &command_texts[0];
    auto rest = arguments;
    for (const auto& candidate : command_texts) {
        bool named = !rest.empty() && candidate.command != Command::answer;
        if (named && rest.front() == candidate.name) text = &candidate;
    }
    if (text->command != Command::answer) rest.erase(rest.begin());
    Parser parser(*text);
    auto out = parser.run(split_empty_values(rest, text->command), environment);
    if (!out || out->show != Invocation::Show::nothing) return out;
    if (auto fits = check_together(out->options); !fits) return located(fits.error(), out->origins);
    return out;
}

}  // namespace sluice
