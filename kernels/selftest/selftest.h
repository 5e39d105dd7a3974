// Compares every kernel of a backend with kernels/reference by value, on this machine's own device.
//
// Each operation gets inputs for its largest number of rows and is run on 1, 5, 17, 65, 300 and
// 1024 rows, five times each. It must give:
//   - values near the reference, or identical bits where the contract says so; NaN never passes;
//   - the same bits in every repeat (a moving error is a race);
//   - the same bits of a row for every number of rows (batch invariance).
// Outputs start poisoned. Takes a few seconds, most of them in the reference.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace sluice {

struct SelftestRow {
    std::string operation;
    int32_t rows;  // the largest number tried
    double error;  // nmse against the reference; 0 where bits are compared
    double limit;  // 0: every bit
    bool pass;
    // Empty when passed, else: "12 bytes differ from the reference at 17 rows", "bits differ
    // between repeats at 5 rows" ...
    std::string why;
};

struct SelftestOptions {
    int32_t rows_max = 1024;
    int32_t repeats = 5;
    std::string
        // Test hook: flips a bit of this operation's output, to see that it is refused.
        break_operation;
};

// The backend needs about 512 MiB of free device memory, so no model should be loaded on it. An
// Error means that the self-test could not run; a wrong kernel is a row with pass == false.
Result<std::vector<SelftestRow>> selftest(Backend& backend, const SelftestOptions& options = {});
bool passed(const std::vector<SelftestRow>& rows);
std::string table(const std::vector<SelftestRow>& rows);

}  // namespace sluice
