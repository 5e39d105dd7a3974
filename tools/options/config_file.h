// The configuration file: a flat part of TOML, one `key = value` a line, keys named like the long
// flags ("ctx-size = 4096").
//
// Values: strings in double quotes (with \\ \" \n \t) or single quotes, whole numbers, reals,
// true, false, and arrays of these on one line. Tables ([section]), multi-line values and dates are
// refused by line. The caller decides which keys exist.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

struct ConfigEntry {
    std::string key;
    std::vector<std::string> values;  // as text: 0.7, true, or a string's content
    int line;
};

// Errors (usage) name `file` and the line.
Result<std::vector<ConfigEntry>> parse_config_file(std::string_view file, std::string_view text);

// Files that exist, most important first: `chosen` alone when not empty (then it must exist), else
// $XDG_CONFIG_HOME/sluice/config.toml (~/.config when unset) and /etc/sluice/config.toml. One that
// is there and is no file that can be read is an error: a link to nowhere, a folder, a closed one.
Result<std::vector<std::filesystem::path>> config_files(const std::string& chosen);

}  // namespace sluice
