// The self-test of a card's kernels, once per device, driver and build: its result is remembered in
// the cache folder.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "io/error.h"
#include "kernels/selftest/selftest.h"

namespace sluice {

struct DeviceCheckOptions {
    int device = 0;
    bool again = false;  // even if remembered
    SelftestOptions test;
};

struct DeviceCheck {
    bool remembered = false;        // passed before, not run now
    std::vector<SelftestRow> rows;  // empty when remembered
    std::string note;               // one line: what was done, or why nothing could be remembered
};

// Runs the self-test on CUDA device `device`, unless this device, driver and build passed it
// before. A wrong kernel is an Error (device) naming it.
Result<DeviceCheck> check_device(const DeviceCheckOptions& options);

}  // namespace sluice
