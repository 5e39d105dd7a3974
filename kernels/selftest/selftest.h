// Every kernel of a backend against kernels/reference, by value, on this machine's own device.
//
// Each operation gets inputs for its largest number of rows and is run at 1, 5, 17, 65, 300 and
// 1024 rows, five times each:
//   - values near the reference (equal to the last bit where the contract says so), NaN never
//   passes,
//   - the same bits in every repeat (a moving error is a race),
//   - a row's bits the same at every number of rows (batch invariance).
// Outputs begin poisoned. Takes a few seconds, most of it in the reference.
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
    std::string why;  // empty when passed: "differs from the reference in 12 values", "moves
                      // between repeats" ...
};

struct SelftestOptions {
    int32_t rows_max = 1024;
    int32_t repeats = 5;
    std::string
        break_operation;  // test hook: flips a bit of this operation's output, to see the refusal
};

// The backend needs about 512 MiB of device memory; no model should be on it. An Error means that
// it could not run; a kernel that is wrong is a row with pass == false.
Result<std::vector<SelftestRow>> selftest(Backend& backend, const SelftestOptions& options = {});
bool passed(const std::vector<SelftestRow>& rows);
std::string table(const std::vector<SelftestRow>& rows);

}  // namespace sluice
