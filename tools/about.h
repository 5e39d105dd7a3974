// The texts that are shown instead of running a command: help, version, devices.
#pragma once

#include "tools/options/options.h"

namespace sluice {

// What options.show asks for, on stdout. --list-devices: a line per device, with its name for
// --device and what it is.
int run_about(const Options& options);

}  // namespace sluice
