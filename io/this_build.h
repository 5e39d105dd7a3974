// Which build of sluice runs: what --version shows, and what tells whether two runs compute alike.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

std::string_view build_version();  // "0.1.0"
std::string_view build_commit();   // as git describes it when the build is configured; or "unknown"

// The checksum of this executable's bytes. Sources may have changed since the build was configured,
// so that only this tells two builds apart. Reads the whole executable at each call.
Result<uint64_t> executable_checksum();

}  // namespace sluice
