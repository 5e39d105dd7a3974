// `sluice selftest`: compares every kernel of the device with the plain reference, by value.
#pragma once

#include "tools/options/options.h"

namespace sluice {

// The table on stdout; exit 0 if all passed, 4 if one is wrong or there is no device.
int run_selftest(const Options& options);

}  // namespace sluice
