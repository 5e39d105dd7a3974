#include "engine/load/device_check.h"

#include "engine/load/cache_file.h"
#include "io/checksum.h"
#include "io/text.h"
#include "io/this_build.h"

namespace sluice {

namespace {

constexpr const char* kind = "selftest";
constexpr uint64_t memory = 1ull << 30;

// Changes with the device, its driver and this executable.
Result<std::string> identity(int device) {
    auto hardware = cuda_identity(device);
    if (!hardware) return hardware;
    auto build = executable_checksum();
    if (!build) return tl::unexpected(build.error());
    return cat(*hardware, ", build ", checksum_text(*build));
}

}  // namespace

Result<DeviceCheck> check_device(const DeviceCheckOptions& options) {
    auto id = identity(options.device);
    if (!id) return tl::unexpected(id.error());
    DeviceCheck check;
    if (!options.again && recall(kind, *id)) {
        check.remembered = true;
        check.note = "self-test of the GPU kernels: passed before with this GPU, driver and build";
        return check;
    }
    auto backend = make_cuda_backend({.device = options.device, .vram_budget = memory});
    if (!backend) return within("self-test of the GPU kernels", backend.error());
    auto rows = selftest(**backend, options.test);
    if (!rows) return within("self-test of the GPU kernels", rows.error());
    check.rows = std::move(*rows);
    if (!passed(check.rows)) {
        std::string wrong;
        for (const SelftestRow& row : check.rows) {
            if (!row.pass) wrong += cat(wrong.empty() ? "" : "; ", row.operation, " ", row.why);
        }
        return fail(Code::device,
                    cat((*backend)->name(), " computes wrong values: ", wrong,
                        " (sluice selftest lists all results; --device cpu runs without a GPU)"));
    }
    const bool kept = remember(kind, *id, "");
    check.note = cat("self-test of the GPU kernels: ", check.rows.size(), " operations passed",
                     kept ? "" : cat("; the result ", not_remembered()));
    return check;
}

}  // namespace sluice
