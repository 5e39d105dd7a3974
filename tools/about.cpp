#include "tools/about.h"

#include "io/text.h"
#include "kernels/backend.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"

// Set by the build for this file alone.
#ifndef SLUICE_VERSION
#error "the build does not say which version this is"
#endif

namespace sluice {

namespace {

std::string isa_list(const std::vector<CpuIsa>& isas) {
    std::string out;
    for (CpuIsa isa : isas) out += cat(out.empty() ? "" : ", ", isa_name(isa));
    return out;
}

int print(const std::string& text) {
    Output output(1);
    auto done = output.write(text);
    return done ? exit_ok : report_error(done.error());
}

}  // namespace

int show_version() {
    return print(cat("sluice ", SLUICE_VERSION, "\n", "commit   ", SLUICE_COMMIT, "\n", "compiler ",
                     __VERSION__, "\n", "cuda     ", SLUICE_CUDA_TEXT, "\n",
                     "cpu      scalar, avx2, avx512, amx; this machine: ", isa_list(cpu_isas()),
                     "\n"));
}

int show_devices() {
    std::string out = cat("cpu     ", usable_cpus(), " threads, ", isa_list(cpu_isas()), "\n");
    auto devices = cuda_devices();
    if (!devices) return report_error(devices.error());
    for (size_t i = 0; i < devices->size(); i++) {
        out += cat("cuda:", i, "  ", (*devices)[i], "\n");
    }
    return print(out);
}

}  // namespace sluice
