// Where the value of a flag came from, when it was not the command line.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace sluice {

struct FlagOrigin {
    std::vector<std::string> flags;  // every name of it: "-c", "--ctx-size"
    std::string source;  // "SLUICE_CTX_SIZE", "/etc/sluice/config.toml line 3: ctx-size"
};

// `message`, and behind it where each flag that it names has its value from, unless it says so:
// who never gave the flag would look for it in vain.
std::string with_origins(std::string message, std::span<const FlagOrigin> origins);

}  // namespace sluice
