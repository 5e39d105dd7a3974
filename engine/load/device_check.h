// The self-test of a GPU's kernels, run once per device, driver and build. A pass is remembered in
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
    bool again = false;  // even if it passed before
    SelftestOptions test;
};

struct DeviceCheck {
    bool remembered = false;        // passed before, so not run now
    std::vector<SelftestRow> rows;  // empty when remembered
    std::string note;               // one line: what was done, and why nothing could be remembered
};

// Runs the self-test on CUDA device `device`, unless this device, driver and build passed it
// before. A kernel with wrong results is an Error (device) that names it.
Result<DeviceCheck> check_device(const DeviceCheckOptions& options);

}  // namespace sluice
