#include "tools/options/help.h"

#include <algorithm>
#include <utility>

#include "cache/policy.h"
#include "cache/predictor.h"
#include "engine/model/model_shape.h"
#include "io/text.h"
#include "tools/options/command_table.h"
#include "tools/options/option_table.h"

namespace sluice {

namespace {

constexpr size_t width = 100, help_column = 30, command_column = 34;
constexpr size_t short_list = 24;  // a list of options up to this long is shown whole

constexpr std::string_view exit_codes =
    "Exit status: 0 success, 1 --verify found a difference, 2 usage, 3 checkpoint, 4 memory or\n"
    "device, 5 input/output, 6 numerical failure, 129 SIGHUP, 130 Ctrl-C, 141 output closed,\n"
    "143 SIGTERM.\n";

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string out;
    for (const std::string& word : words) out += cat(out.empty() ? "" : between, word);
    return out;
}

// Whether help lists the registered classes and known shapes or says where they are listed, so that
// tools/OPTIONS.md does not depend on which there are.
enum class Names { all, default_only };

// The help of a row, the names of registered classes and known shapes filled in.
std::string help_of(const OptionSpec& spec, Names which) {
    struct Mark {
        std::string_view mark;
        std::vector<std::string> names;
        std::string instead;
    };
    const auto only = [](const char* by_default) {
        return cat(by_default, " (default; --help-advanced lists all names)");
    };
    const Mark marks[] = {{"{policies}", policy_names(), only(default_policy)},
                          {"{predictors}", predictor_names(), only(default_predictor)},
                          {"{shapes}", shape_names(), "sluice help plan lists them"}};
    std::string out = spec.help;
    for (const Mark& one : marks) {
        const size_t at = out.find(one.mark);
        if (at == out.npos) continue;
        out.replace(at, one.mark.size(),
                    which == Names::all ? joined(one.names, ", ") : one.instead);
    }
    return out;
}

// `text` after `first`, both in columns that begin at `indent`, broken between words.
std::string paragraph(std::string first, std::string_view text, size_t indent) {
    std::string out, line = std::move(first);
    if (!line.empty() && line.size() >= indent) {
        out = line + '\n';
        line.clear();
    }
    line.resize(indent, ' ');
    while (!text.empty()) {
        const size_t space = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, space);
        text.remove_prefix(std::min(space + 1, text.size()));
        if (line.size() + 1 + word.size() > width) {
            out += line + '\n';
            line.assign(indent, ' ');
        }
        if (line.size() > indent) line += ' ';
        line += word;
    }
    return out + line + '\n';
}

std::vector<const OptionSpec*> rows_of(Command command) {
    std::vector<const OptionSpec*> out;
    for (const OptionSpec& spec : option_table()) {
        if ((spec.commands & bit(command)) && !spec.is(hidden)) out.push_back(&spec);
    }
    return out;
}

// The groups of `rows`, in the order of the table.
std::vector<std::string_view> groups_of(const std::vector<const OptionSpec*>& rows) {
    std::vector<std::string_view> out;
    for (const OptionSpec* spec : rows) {
        if (std::find(out.begin(), out.end(), spec->group) == out.end())
            out.emplace_back(spec->group);
    }
    return out;
}

std::string option_lists(const std::vector<const OptionSpec*>& rows) {
    std::string out;
    for (std::string_view group : groups_of(rows)) {
        out += cat("\n", group, ":\n");
        for (const OptionSpec* spec : rows) {
            if (spec->group != group) continue;
            const std::string value = spec->is_switch() ? "" : cat(" ", spec->value_name);
            out += paragraph(cat("  ", joined(spec->flags(), ", "), value),
                             help_of(*spec, Names::all), help_column);
        }
    }
    return out;
}

std::string usage_of(const CommandSpec& spec) {
    const bool words = spec.words[0] != '\0';
    return cat(command_title(spec.command), words ? " " : "", spec.words);
}

std::string command_list() {
    std::string out = "\nCommands:\n";
    const auto add = [&](std::string_view usage, std::string_view summary) {
        out += paragraph(cat("  ", usage), summary, command_column);
    };
    add("sluice MODEL", "chat in the terminal");
    add("sluice chat URL", "chat with a model that sluice serve has loaded");
    add("sluice MODEL -p TEXT", "answer once");
    add("sluice MODEL --verify TRACE...", "compare the model's logits with traces");
    for (const CommandSpec& spec : command_table()) {
        if (spec.command != Command::answer) add(usage_of(spec), spec.summary);
    }
    add("sluice help COMMAND", "show the options of a command");
    return out;
}

// Options that are neither a variable nor a key.
std::string once_only(const std::vector<const OptionSpec*>& rows) {
    std::vector<std::string> names;
    for (const OptionSpec* spec : rows) {
        if (spec->is(once) && !spec->is(informative)) names.push_back("--" + spec->name());
    }
    return joined(names, ", ");
}

std::string sources_text(const std::vector<const OptionSpec*>& rows) {
    const std::string once_names = once_only(rows);
    return paragraph(
               "",
               cat("Options can also be set by environment variables (SLUICE_CTX_SIZE=4096) and in "
                   "config.toml (ctx-size = 4096), except those for a single run: ",
                   once_names, "."),
               0) +
           "The command line overrides variables, which override config.toml in "
           "$XDG_CONFIG_HOME/sluice\n(default: ~/.config/sluice), which overrides the one in "
           "/etc/sluice.\n";
}

}  // namespace

std::string help_text(Command command, HelpPart part) {
    const CommandSpec& spec = command_spec(command);
    const auto all = rows_of(command);
    const bool whole = all.size() <= short_list;
    std::vector<const OptionSpec*> shown;
    for (const OptionSpec* row : all) {
        if (whole || row->apart(command) == (part == HelpPart::advanced)) shown.push_back(row);
    }
    if (part == HelpPart::advanced && !whole) {
        return cat("Advanced options of ", command_title(command), "; ", command_title(command),
                   " --help shows the others.\n", option_lists(shown));
    }
    std::string out = cat("Usage: ", usage_of(spec), " [OPTIONS]\n\n", spec.text, "\n");
    if (command == Command::answer) out += command_list();
    if (whole)
        std::erase_if(shown, [](const OptionSpec* row) { return row->name() == "help-advanced"; });
    out += option_lists(shown);
    if (command == Command::answer) out += cat("\n", sources_text(all), exit_codes);
    return out;
}

namespace {

std::string command_names(Commands commands) {
    std::vector<std::string> out;
    bool all = true;
    for (const CommandSpec& spec : command_table()) {
        all = all && (commands & bit(spec.command));
        if (!(commands & bit(spec.command))) continue;
        out.push_back(spec.command == Command::answer ? "answer" : spec.name);
        if (spec.command == Command::answer && (commands & comparing)) out.push_back("verify");
    }
    return all ? "all" : joined(out, ", ");
}

std::string for_table(std::string text) {
    for (size_t at = 0; (at = text.find('|', at)) != text.npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string notes_of(const OptionSpec& spec) {
    std::vector<std::string> out;
    if (spec.is(advanced)) out.push_back("advanced");
    if (spec.is(needs_gpu)) out.push_back("needs a GPU");
    if (spec.is(once)) out.push_back("command line only");
    if (spec.is(repeated)) out.push_back("may be repeated");
    return joined(out, ", ");
}

}  // namespace

std::string options_markdown() {
    std::string out =
        "# Options\n\n"
        "Every option of every command, from `tools/options/option_table.cpp`. This file is "
        "written "
        "by\n`sluice --help-markdown > tools/OPTIONS.md`; a test checks that it is current.\n\n"
        "An option such as `--ctx-size 4096` is also the environment variable "
        "`SLUICE_CTX_SIZE=4096` and the "
        "key `ctx-size = 4096`\nof `~/.config/sluice/config.toml`, unless its note says that it is "
        "for the command line only. The command line\noverrides environment variables, which "
        "override the user's file, which overrides the system's,\n`/etc/sluice/config.toml`.\n"
        "`answer` is `sluice MODEL`, `verify` is `sluice MODEL --verify`.\n";
    std::vector<const OptionSpec*> all;
    for (const OptionSpec& spec : option_table()) {
        if (!spec.is(hidden)) all.push_back(&spec);
    }
    for (std::string_view group : groups_of(all)) {
        out +=
            cat("\n## ", group, "\n\n| option | meaning | commands | notes |\n|---|---|---|---|\n");
        for (const OptionSpec* spec : all) {
            if (spec->group != group) continue;
            const std::string value = spec->is_switch() ? "" : cat(" ", spec->value_name);
            out += cat("| `", for_table(joined(spec->flags(), ", ") + value), "` | ",
                       for_table(help_of(*spec, Names::default_only)), " | ",
                       command_names(spec->commands), " | ", notes_of(*spec), " |\n");
        }
    }
    return out;
}

}  // namespace sluice
