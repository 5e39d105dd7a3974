#include "tools/options/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>

#include "io/text.h"
#include "tools/options/suggestions.h"

namespace sluice {

namespace {

const OptionSpec* find_flag(Command command, std::string_view flag) {
    for (const OptionSpec& spec : option_table()) {
        if (!(spec.commands & bit(command))) continue;
        for (const std::string& name : spec.flags()) {
            if (name == flag) return &spec;
        }
    }
    return nullptr;
}

// "gl" in "-ngl" is no value of -n: the flag of another program must not become a bad value of
// ours.
bool is_flag_of_another_program(Command command, const std::string& argument) {
    if (argument.size() < 3 || argument[0] != '-' || argument[1] == '-') return false;
    const OptionSpec* spec = find_flag(command, argument.substr(0, 2));
    return spec && std::string_view(spec->value_name) == "N" &&
           std::string_view("0123456789+-=").find(argument[2]) == std::string_view::npos;
}

Error missing_value(const OptionSpec& spec, Command command) {
    const std::string name = "--" + spec.name();
    return {Code::usage, cat(name, ": a value is missing: ", name, " ", spec.value_name, " (see ",
                             help_command(command), ")")};
}

// What CLI11 gets wrong or cannot name: "--stop=" and "-p=hi" become two arguments; a flag at the
// end that lacks its value and the flag of another program are errors of ours.
struct Prepared {
    std::vector<std::string> arguments;
    std::vector<std::string> words;                  // behind "--"
    std::map<const OptionSpec*, std::string> typed;  // the last name under which it was given
    std::optional<Error> error;                      // the first one
};

// "--stop=" and "-p=hi": a flag and its value in one argument, as CLI11 does not take them apart.
// Returns the length of the flag; 0: none of these.
size_t flag_before_value(Command command, const std::string& argument) {
    const bool empty = argument.starts_with("--") && argument.ends_with('=');
    const bool brief = argument.size() > 2 && argument[0] == '-' && argument[2] == '=';
    const size_t size = empty ? argument.size() - 1 : brief ? 2 : 0;
    return size > 0 && find_flag(command, argument.substr(0, size)) ? size : 0;
}

Prepared prepare(Command command, const std::vector<std::string>& arguments) {
    Prepared out;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        if (argument == "--") {
            out.words.assign(arguments.begin() + static_cast<long>(i) + 1, arguments.end());
            break;
        }
        const size_t before_value = flag_before_value(command, argument);
        const std::string flag = before_value > 0 ? argument.substr(0, before_value) : argument;
        const OptionSpec* spec = find_flag(command, flag);
        const bool takes_value = spec && !spec->is_switch();
        const std::string name = flag.substr(0, flag.starts_with("--") ? flag.find('=') : 2);
        if (const OptionSpec* given = find_flag(command, name)) out.typed[given] = name;
        out.arguments.push_back(takes_value ? flag : argument);
        if (is_flag_of_another_program(command, argument)) {
            if (!out.error) out.error = unknown_flag(argument, command);
            out.arguments.pop_back();
        }
        if (!takes_value) continue;
        if (before_value > 0) {
            out.arguments.push_back(argument.substr(before_value + 1));
        } else if (i + 1 < arguments.size()) {
            out.arguments.push_back(arguments[++i]);
        } else {
            if (!out.error) out.error = missing_value(*spec, command);
            out.arguments.pop_back();
        }
    }
    return out;
}

CLI::Option* add(CLI::App& app, const OptionSpec& spec) {
    if (spec.is_switch()) return app.add_flag(spec.names);
    CLI::Option* option = app.add_option(spec.names, [](const CLI::results_t&) { return true; });
    if (spec.is(several)) {
        return option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
    }
    return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// CLI11's own words, on one line.
std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    while (text.ends_with(' ')) text.pop_back();
    return printable(text);
}

}  // namespace

Result<CommandLine> read_command_line(Command command, const std::vector<std::string>& arguments) {
    CLI::App app;
    app.set_help_flag();
    app.allow_extras();
    CommandLine line;
    app.add_option("words", line.words);
    std::vector<std::pair<const OptionSpec*, CLI::Option*>> options;
    for (const OptionSpec& spec : option_table()) {
        if (spec.commands & bit(command)) options.emplace_back(&spec, add(app, spec));
    }
    auto [prepared, words, typed, error] = prepare(command, arguments);
    std::reverse(prepared.begin(), prepared.end());
    try {
        app.parse(std::move(prepared));
    } catch (const std::exception& thrown) {  // CLI11 also throws what is not a CLI::Error
        if (!error) {
            error = Error{Code::usage,
                          cat(one_line(thrown.what()), " (see ", help_command(command), ")")};
        }
    }
    line.words.insert(line.words.end(), words.begin(), words.end());
    const std::vector<std::string> unknown = app.remaining();
    if (!error && !unknown.empty()) {
        error = unknown_flag(unknown.front().substr(0, unknown.front().find('=')), command);
    }
    bool helps = false;
    for (const auto& [spec, option] : options) {
        if (option->results().empty()) continue;
        const auto name = typed.find(spec);
        line.flags[spec] = {name == typed.end() ? "--" + spec->name() : name->second,
                            option->results()};
        helps = helps || spec->name() == "help" || spec->name() == "help-advanced";
    }
    if (helps) return line;
    if (error) return tl::unexpected(std::move(*error));
    return line;
}

size_t first_word(const std::vector<std::string>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
        const std::string& argument = arguments[i];
        if (argument == "--") return arguments.size();
        if (argument.size() < 2 || argument[0] != '-') return i;
        for (const OptionSpec& spec : option_table()) {
            const auto flags = spec.flags();
            if (std::ranges::find(flags, argument) == flags.end()) continue;
            if (spec.is(several)) return arguments.size();
            if (!spec.is_switch()) ++i;
            break;
        }
    }
    return arguments.size();
}

}  // namespace sluice
