// The configuration file: a subset of TOML with one `key = value` per line. Keys are the long names
// of flags ("ctx-size = 4096").
//
// Values: strings in double quotes (with \\ \" \n \t) or single quotes, whole numbers, reals,
// true, false, and arrays of these on one line. Tables ([section]), multi-line values and dates are
// errors that name the line. The caller decides which keys exist.
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

// The files that exist, most important first: only `chosen` if it is not empty (it must exist
// then), else $XDG_CONFIG_HOME/sluice/config.toml (~/.config when unset) and
// /etc/sluice/config.toml. Something of that name which cannot be read is an error: a broken link,
// a folder, a file without permission.
Result<std::vector<std::filesystem::path>> config_files(const std::string& chosen);

}  // namespace sluice
