#include "tools/selftest.h"

#include <charconv>

#include "engine/load/device_check.h"
#include "io/text.h"
#include "kernels/selftest/selftest.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr uint64_t memory = 1ull << 30;

Result<std::unique_ptr<Backend>> open_device(const EngineOptions& options) {
    if (options.device == "cpu") {
        return make_cpu_backend({.isa = options.isa, .threads = options.threads});
    }
    int index = 0;
    const std::string_view name = options.device;
    if (name.starts_with("cuda:"))
        std::from_chars(name.data() + 5, name.data() + name.size(), index);
    return make_cuda_backend({.device = index, .vram_budget = memory});
}

}  // namespace

int run_selftest(const Options& options) {
    install_signals(SecondPress::leaves);
    auto backend = open_device(options.engine);
    if (!backend) return report_error(backend.error());
    auto rows = selftest(**backend);
    if (!rows) return report_error(rows.error());
    Output output(1);
    auto done = output.write(cat((*backend)->name(), "\n", table(*rows)));
    if (!done) return report_error(done.error());
    if (passed(*rows)) return exit_ok;
    return report_error({Code::device, cat((*backend)->name(), " computes wrong values")});
}

}  // namespace sluice
