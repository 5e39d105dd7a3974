// Source of kernels/backend.h and table.h: the scratch of IndexTopk. Scores are queries x rows, too
// many at once for a prompt chunk in a context of a million tokens. So queries go in slices of at
// most 64 and 16 MiB, or one by one where a single row of scores is larger than that.
#include <algorithm>

#include "kernels/backend.h"
#include "kernels/cpu/table.h"

namespace sluice {

// Grows with n and with rows, so that scratch for the largest call serves every smaller one.
size_t index_scratch_floats(int32_t n, int32_t rows) {
    int64_t whole = int64_t{rows} * std::min(n, 64);
    return std::max<int64_t>({1, rows, std::min<int64_t>(whole, 4 << 20)});
}

namespace cpu {

int64_t index_queries(int32_t n, int32_t rows) {
    return static_cast<int64_t>(index_scratch_floats(n, rows)) / std::max(rows, 1);
}

}  // namespace cpu
}  // namespace sluice
