// Where the value of an option came from if not from the command line.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

struct FlagOrigin {
    std::vector<std::string> flags;  // all its names: "-c", "--ctx-size"
    std::string source;  // "SLUICE_CTX_SIZE", "/etc/sluice/config.toml line 3: ctx-size"
};

// `message`, followed by the origin of the value of each flag that it names, unless it says so
// already: a user who never gave the flag needs to know where to change it.
std::string with_origins(std::string message, std::span<const FlagOrigin> origins);

}  // namespace sluice
