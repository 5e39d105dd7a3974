#include "tools/about.h"

#include "io/text.h"
#include "io/this_build.h"
#include "kernels/backend.h"
#include "tools/options/help.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"

// Set by the build for this file alone.
#ifndef SLUICE_CUDA_TEXT
#error "the build does not say which GPUs it was made for"
#endif

namespace sluice {

namespace {

std::string isa_list(const std::vector<CpuIsa>& isas) {
    std::string out;
    for (CpuIsa isa : isas) out += cat(out.empty() ? "" : ", ", isa_name(isa));
    return out;
}

std::string version_text() {
    return cat("sluice ", build_version(), "\n", "commit   ", build_commit(), "\n", "compiler ",
               __VERSION__, "\n", "cuda     ", SLUICE_CUDA_TEXT, "\n",
               "cpu      scalar, avx2, avx512, amx; this machine: ", isa_list(cpu_isas()), "\n");
}

Result<std::string> device_list() {
    std::string out = cat("cpu     ", usable_cpus(), " threads, ", isa_list(cpu_isas()), "\n");
    auto devices = cuda_devices();
    if (!devices) return tl::unexpected(devices.error());
    for (size_t i = 0; i < devices->size(); ++i) {
        out += cat("cuda:", i, "  ", (*devices)[i], "\n");
    }
    return out;
}

Result<std::string> text_of(const Options& options) {
    switch (options.show) {
        case Show::help:
            return help_text(options.command, HelpPart::usual);
        case Show::help_advanced:
            return help_text(options.command, HelpPart::advanced);
        case Show::help_markdown:
            return options_markdown();
        case Show::version:
            return version_text();
        case Show::devices:
            return device_list();
        case Show::nothing:
            break;
    }
    return std::string();
}

}  // namespace

int run_about(const Options& options) {
    auto text = text_of(options);
    if (!text) return report_error(text.error());
    auto done = Output(1).write(*text);
    return done ? exit_ok : report_error(done.error());
}

}  // namespace sluice
