#include "tools/options/stray_names.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>

#include "io/text.h"
#include "tools/options/option_table.h"

namespace sluice {

namespace {

constexpr std::string_view prefix = "SLUICE_";
constexpr std::string_view of_build_and_tests[] = {
    "SLUICE_SOURCE_DIR", "SLUICE_CUDA",  "SLUICE_CUDA_ARCHITECTURES",
    "SLUICE_SANITIZE",   "SLUICE_TESTS", "SLUICE_PTXAS_REPORT"};
constexpr std::string_view of_tests = "SLUICE_TEST_";

// Insertions, removals, changes and exchanges of neighbours between two words.
size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); i++) d[i][0] = i;
    std::iota(d[0].begin(), d[0].end(), size_t{0});
    for (size_t i = 1; i <= a.size(); i++) {
        for (size_t j = 1; j <= b.size(); j++) {
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                                d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

struct Near {
    std::string name;  // long, without dashes
    bool lasting;
};

// The option whose name is `word`, is begun by it, or differs by a third of its letters at the
// most.
std::optional<Near> nearest(const std::string& word) {
    std::optional<Near> best;
    size_t least = word.size() / 3 + 1;
    for (const OptionSpec& spec : option_table()) {
        for (const std::string& name : spec.long_names()) {
            const bool begun = word.size() >= 3 && name.starts_with(word);
            const size_t away = begun && name != word ? 1 : distance(word, name);
            if (away >= least) continue;
            least = away;
            best = Near{name, spec.lasting};
        }
    }
    return best;
}

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return out;
}

std::string key_of(std::string_view variable) {
    std::string key(variable.substr(prefix.size()));
    for (char& c : key) {
        c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return key;
}

bool known(std::string_view variable) {
    if (variable.starts_with(of_tests)) return true;
    const auto end = std::end(of_build_and_tests);
    if (std::find(std::begin(of_build_and_tests), end, variable) != end) return true;
    return find_lasting(key_of(variable)) && upper(variable) == variable;
}

std::string meant(const std::string& key, std::string (*shown)(std::string_view)) {
    if (key == "config") return "--config is a flag alone";
    const auto near = nearest(key);
    if (!near) return "sluice --help lists what there is";
    if (near->lasting) return cat("did you mean ", shown(near->name), "?");
    return cat("--", near->name, " is a flag alone");
}

}  // namespace

std::string key_meant(std::string_view key) {
    return meant(std::string(key), [](std::string_view name) { return cat('"', name, '"'); });
}

std::string nearest_word(std::string_view word, std::span<const std::string> words) {
    std::string best;
    size_t least = word.size() / 3 + 1;
    for (const std::string& other : words) {
        const size_t away = distance(word, other);
        if (away >= least) continue;
        least = away;
        best = other;
    }
    return best;
}

std::string stray_variables(const char* const* environment) {
    std::string out;
    for (; *environment; environment++) {
        const std::string_view entry = *environment;
        const std::string_view name = entry.substr(0, entry.find('='));
        if (name.size() == entry.size() || name.size() + 1 == entry.size()) continue;
        if (!upper(name).starts_with(prefix) || known(name)) continue;
        out += cat(out.empty() ? "" : "; ", printable(name), " has no effect (",
                   meant(key_of(name), variable_name), ")");
    }
    return out;
}

}  // namespace sluice
