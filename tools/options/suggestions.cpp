#include "tools/options/suggestions.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "io/text.h"
#include "tools/options/command_table.h"
#include "tools/options/option_table.h"

namespace sluice {

namespace {

constexpr std::string_view prefix = "SLUICE_";
constexpr std::string_view build_and_test_variables[] = {
    "SLUICE_SOURCE_DIR", "SLUICE_BUILD_DIR", "SLUICE_CUDA",        "SLUICE_CUDA_ARCHITECTURES",
    "SLUICE_SANITIZE",   "SLUICE_TESTS",     "SLUICE_PTXAS_REPORT"};
constexpr std::string_view test_prefix = "SLUICE_TEST_";

// Flags of earlier versions and of other programs that no spelling leads to.
struct KnownElsewhere {
    std::string_view flag, here;
};
constexpr KnownElsewhere known_elsewhere[] = {
    {"--trace", "--profile FILE writes where time goes"},
    {"-ngl", "--vram SIZE sets how much VRAM is used"},
    {"--gpu-layers", "--vram SIZE sets how much VRAM is used"},
    {"--n-gpu-layers", "--vram SIZE sets how much VRAM is used"},
};

// Insertions, removals, changes and exchanges of neighbours between two words.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    std::iota(d[0].begin(), d[0].end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                                d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

// The one of `words` that `word` begins, whose last part it is ("effort" of "reasoning-effort"), or
// that differs from it by at most a third of its letters; empty: none.
std::string nearest(std::string_view word, std::span<const std::string> words) {
    std::string best;
    size_t least = word.size() / 3 + 1;
    for (const std::string& other : words) {
        const bool part = word.size() >= 3 && other != word &&
                          (other.starts_with(word) || other.ends_with(cat("-", word)));
        const size_t away = part ? 1 : distance(word, other);
        if (away >= least) continue;
        least = away;
        best = other;
    }
    return best;
}

// The long names of the options that any of `commands` has.
std::vector<std::string> option_names(Commands commands) {
    std::vector<std::string> out;
    for (const OptionSpec& spec : option_table()) {
        if (!(spec.commands & commands) || spec.is(hidden)) continue;
        for (std::string& name : spec.long_names()) out.push_back(std::move(name));
    }
    return out;
}

// "sluice bench, sluice record": the commands that have `flag`; empty: none.
std::string commands_with(std::string_view flag) {
    std::string out;
    for (const OptionSpec& spec : option_table()) {
        const auto flags = spec.flags();
        if (std::find(flags.begin(), flags.end(), flag) == flags.end()) continue;
        for (const CommandSpec& command : command_table()) {
            if (!(spec.commands & bit(command.command))) continue;
            out += cat(out.empty() ? "" : ", ", command_title(command.command));
        }
    }
    return out;
}

std::string changed(std::string_view text, int (*change)(int)) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(change(static_cast<unsigned char>(c)));
    return out;
}

// "SLUICE_CTX_SIZE" -> "ctx-size".
std::string key_of(std::string_view variable) {
    std::string key = changed(variable.substr(prefix.size()), std::tolower);
    std::replace(key.begin(), key.end(), '_', '-');
    return key;
}

bool has_effect(std::string_view variable) {
    if (variable.starts_with(test_prefix)) return true;
    const auto end = std::end(build_and_test_variables);
    if (std::find(std::begin(build_and_test_variables), end, variable) != end) return true;
    const OptionSpec* spec = find_option(key_of(variable));
    return spec && spec->lasting() && changed(variable, std::toupper) == variable;
}

// What was meant by `key`, a setting shown as keys or as variables are.
std::string meant(std::string_view key, std::string (*shown)(std::string_view)) {
    const std::string flag = cat("--", key);
    for (const KnownElsewhere& known : known_elsewhere) {
        if (known.flag == flag) return std::string(known.here);
    }
    const std::string near = nearest(key, option_names(~Commands{0}));
    if (near.empty()) return "sluice --help lists the options";
    if (find_option(near)->lasting()) return cat("did you mean ", shown(near), "?");
    return cat("--", near, " can only be given on the command line");
}

}  // namespace

std::string help_command(Command command) {
    return command_title(command) + " --help";
}

Error unknown_flag(std::string_view flag, Command command) {
    std::string out = cat("unknown flag ", printable(flag));
    const std::string see = cat(" (see ", help_command(command), ")");
    for (const KnownElsewhere& known : known_elsewhere) {
        if (known.flag == flag) return {Code::usage, cat(out, ": ", known.here, see)};
    }
    if (const std::string others = commands_with(flag); !others.empty()) {
        out = cat(printable(flag), ": ", command_title(command), " does not take it; ", others,
                  others.find(',') == others.npos ? " does" : " do");
        return {Code::usage, out + see};
    }
    const std::string_view word = flag.substr(flag.find_first_not_of('-'));
    const std::string near = nearest(word, option_names(bit(command)));
    if (!near.empty()) out += cat("; did you mean --", near, "?");
    return {Code::usage, out + see};
}

std::string command_suggestion(std::string_view word) {
    std::vector<std::string> names = {"help"};
    for (const CommandSpec& spec : command_table()) {
        for (const char* name : {spec.name, spec.also}) names.emplace_back(name);
    }
    const std::string near = nearest(word, names);
    return near.empty() ? "" : cat("; did you mean ", near, "?");
}

std::string key_suggestion(std::string_view key) {
    return meant(key, [](std::string_view name) { return cat('"', name, '"'); });
}

std::string unused_variables(const char* const* environment) {
    std::string out;
    for (; *environment; ++environment) {
        const std::string_view entry = *environment;
        const std::string_view name = entry.substr(0, entry.find('='));
        if (name.size() == entry.size() || name.size() + 1 == entry.size()) continue;
        if (!changed(name, std::toupper).starts_with(prefix) || has_effect(name)) continue;
        out += cat(out.empty() ? "" : "; ", printable(name), " has no effect (",
                   meant(key_of(name), variable_name), ")");
    }
    return out;
}

}  // namespace sluice
