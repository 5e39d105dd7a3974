#include "tools/options/options.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/file.h"
#include "io/path_access.h"
#include "io/text.h"
#include "tools/options/command_line.h"
#include "tools/options/command_table.h"
#include "tools/options/config_file.h"
#include "tools/options/option_rules.h"
#include "tools/options/option_table.h"
#include "tools/options/suggestions.h"
#include "tools/options/user_text.h"

namespace sluice {

namespace {

using FileSettings = std::vector<std::pair<const OptionSpec*, Setting>>;

// The text of every source, most important first.
struct Sources {
    TypedFlags flags;
    const char* (*environment)(const char* name);
    std::vector<FileSettings> files;
};

Result<FileSettings> read_settings(const std::filesystem::path& path) {
    auto text = read_text(path, 1 << 20);
    if (!text) return tl::unexpected(named_file_error(text.error()));
    drop_byte_order_mark(*text);
    auto entries = parse_config_file(path.string(), *text);
    if (!entries) return tl::unexpected(entries.error());
    FileSettings out;
    for (auto& entry : *entries) {
        std::string source = cat(path.string(), " line ", entry.line, ": ", entry.key);
        const OptionSpec* spec = find_option(entry.key);
        if (!spec || !spec->lasting()) {
            return fail(Code::usage,
                        cat(source, ": unknown key (", key_suggestion(entry.key), ")"));
        }
        const bool list = spec->is(repeated) || spec->is(several);
        if (entry.values.empty() || (!list && entry.values.size() != 1)) {
            return fail(Code::usage, source + ": takes only one value");
        }
        out.emplace_back(spec, Setting{source, std::move(entry.values)});
    }
    return out;
}

Result<Sources> read_sources(CommandLine line, const std::string& config_file,
                             const char* (*environment)(const char* name)) {
    Sources sources{std::move(line.flags), environment, {}};
    auto files = config_files(config_file);
    if (!files) return tl::unexpected(files.error());
    for (const auto& path : *files) {
        auto settings = read_settings(path);
        if (!settings) return tl::unexpected(settings.error());
        sources.files.push_back(std::move(*settings));
    }
    return sources;
}

std::optional<Setting> setting_for(const OptionSpec& spec, const Sources& sources) {
    if (auto flag = sources.flags.find(&spec); flag != sources.flags.end()) return flag->second;
    if (!spec.lasting() || overruled(spec, sources.flags)) return std::nullopt;
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

Result<void> set_options(const Sources& sources, Invocation& out) {
    Options& options = out.options;
    for (const auto& spec : option_table()) {
        if (!(spec.commands & bit(options.command))) continue;
        auto setting = setting_for(spec, sources);
        if (!setting) continue;
        if (!sources.flags.contains(&spec)) out.origins.push_back({spec.flags(), setting->source});
        if (auto done = spec.set(options, *setting); !done) return done;
        const bool asked = spec.is(needs_gpu) && setting->values.back() != "auto";
        if (asked && options.engine.gpu_option.empty())
            options.engine.gpu_option = "--" + spec.name();
    }
    return {};
}

Error unknown_command(std::string_view word, std::string_view why) {
    return {Code::usage, cat("unknown command \"", printable(word), '"', why,
                             command_suggestion(word), " (see sluice --help)")};
}

bool names_nothing(const std::string& word) {
    return !word.empty() && word.find('/') == word.npos && !is_there(word);
}

// A mistyped command would be taken for a model, and its flags for those of an answer.
std::optional<Error> mistyped_command(const std::vector<std::string>& arguments) {
    if (arguments.empty() || arguments.front().starts_with("-")) return std::nullopt;
    const std::string& word = arguments.front();
    if (!names_nothing(word)) return std::nullopt;
    if (arguments.size() > 1 && command_suggestion(word).empty()) return std::nullopt;
    return unknown_command(word, ", and no such model");
}

// `sluice chat http://...` is `sluice --attach http://...`.
Result<void> place_server(CommandLine& line) {
    const auto is_url = [](const std::string& word) { return word.find("://") != word.npos; };
    const auto url = std::ranges::find_if(line.words, is_url);
    if (url == line.words.end()) return {};
    Setting& server = line.flags[find_option("attach")];
    if (!server.values.empty())
        return fail(Code::usage, cat("--attach and ", printable(*url), ": give only one server"));
    server = {"--attach", {*url}};
    line.words.erase(url);
    return {};
}

// The words of the command line go to its model or its files.
Result<void> place_words(CommandLine& line, Options& options) {
    const Command command = options.command;
    if (command == Command::simulate) {
        if (line.words.empty())
            return fail(Code::usage, "simulate: ROUTES are missing (see sluice simulate --help)");
        options.route_files = std::move(line.words);
        return {};
    }
    if (command == Command::answer) {
        if (auto placed = place_server(line); !placed) return placed;
    }
    if (command == Command::answer && line.words.size() > 1 && names_nothing(line.words.front()))
        return tl::unexpected(unknown_command(line.words.front(), ", and no such model"));
    if (command == Command::batch && line.words.size() == 2) {
        options.batch_file = line.words.back();
        line.words.pop_back();
    }
    const size_t room = command == Command::selftest ? 0 : 1;
    if (line.words.size() > room) {
        const std::string why = room == 0
                                    ? cat(": ", command_title(command), " takes no model")
                                    : std::string(" after the model; -m adds folders of shards");
        return fail(Code::usage, cat("unexpected \"", printable(line.words[room]), '"', why,
                                     " (see ", help_command(command), ")"));
    }
    if (line.words.empty()) return {};
    Setting& model = line.flags[find_option("model")];
    model.source = "--model";
    model.values.insert(model.values.begin(), line.words.front());
    return {};
}

// `sluice help` and `sluice help COMMAND`.
Result<Invocation> show_help(const std::vector<std::string>& arguments) {
    Invocation out;
    out.options.show = Show::help;
    if (arguments.size() > 2) return fail(Code::usage, "sluice help: takes only one command");
    if (arguments.size() < 2 || arguments[1].starts_with("-")) return out;
    const CommandSpec* spec = find_command(arguments[1]);
    if (!spec) return tl::unexpected(unknown_command(arguments[1], ""));
    out.options.command = spec->command;
    return out;
}

tl::unexpected<Error> located(Error error, const std::vector<FlagOrigin>& origins) {
    error.message = with_origins(std::move(error.message), origins);
    return tl::unexpected(std::move(error));
}

// "--json inspect MODEL" -> "inspect --json MODEL": a command may stand behind flags that it has.
// Where a folder has its name, the word is a model.
std::vector<std::string> with_command_first(std::vector<std::string> arguments) {
    const size_t at = first_word(arguments);
    if (at == 0 || at >= arguments.size()) return arguments;
    if (!find_command(arguments[at]) || is_there(arguments[at])) return arguments;
    std::rotate(arguments.begin(), arguments.begin() + static_cast<long>(at),
                arguments.begin() + static_cast<long>(at) + 1);
    return arguments;
}

}  // namespace

bool Options::keeps_warm() const {
    const bool answers =
        command == Command::answer || command == Command::serve || command == Command::batch;
    return warm_start && answers && traces.empty();
}

bool Options::thinking() const {
    if (reasoning == Reasoning::automatic) return effort.has_value();
    return reasoning == Reasoning::on;
}

Result<Invocation> parse_options(const std::vector<std::string>& arguments,
                                 const char* (*environment)(const char* name)) {
    auto rest = with_command_first(arguments);
    if (!rest.empty() && rest.front() == "help") return show_help(rest);
    Invocation out;
    Options& options = out.options;
    if (const CommandSpec* named = rest.empty() ? nullptr : find_command(rest.front())) {
        options.command = named->command;
        rest.erase(rest.begin());
    } else if (auto mistyped = mistyped_command(rest)) {
        return tl::unexpected(std::move(*mistyped));
    }
    auto line = read_command_line(options.command, rest);
    if (!line) return tl::unexpected(line.error());
    for (const auto& [spec, setting] : line->flags) {
        if (spec->is(informative)) return spec->set(options, setting), out;
    }
    if (auto placed = place_words(*line, options); !placed) return tl::unexpected(placed.error());
    if (auto fits = check_flags(line->flags, options.command); !fits)
        return tl::unexpected(fits.error());
    if (auto config = line->flags.find(find_option("config")); config != line->flags.end())
        options.config_file = config->second.values.back();
    auto sources = read_sources(std::move(*line), options.config_file, environment);
    if (!sources) return tl::unexpected(sources.error());
    if (auto done = set_options(*sources, out); !done) return located(done.error(), out.origins);
    options.attach.loading_flag = loading_flag(sources->flags);
    if (auto fits = check_options(options); !fits) return located(fits.error(), out.origins);
    return out;
}

}  // namespace sluice
