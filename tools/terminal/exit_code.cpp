#include "tools/terminal/exit_code.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "tools/terminal/signals.h"

namespace sluice {

namespace {

std::vector<FlagOrigin> flag_origins;

const char* stopped_text() {
    switch (interrupt_code()) {
        case exit_terminated:
            return "terminated (SIGTERM)";
        case exit_hung_up:
            return "terminated (SIGHUP)";
        default:
            return "interrupted";
    }
}

}  // namespace

ExitCode exit_code(Code code) {
    switch (code) {
        case Code::usage:
            return exit_usage;
        case Code::not_found:
        case Code::corrupt:
        case Code::unsupported:
            return exit_checkpoint;
        case Code::no_memory:
        case Code::device:
            return exit_machine;
        case Code::io:
            return exit_io;
        case Code::mismatch:
            return exit_mismatch;
        case Code::numerical:
            return exit_numerical;
        case Code::interrupted:
            return interrupt_code();
    }
    return exit_machine;
}

void set_flag_origins(std::vector<FlagOrigin> origins) {
    flag_origins = std::move(origins);
}

int report_error(const Error& error) {
    static std::atomic<bool> reported{false};
    const bool stopped = error.code == Code::interrupted;  // where it happened does not matter
    if (stopped && reported.exchange(true)) return exit_code(error.code);
    std::string line = "sluice: ";
    for (char c :
         stopped ? std::string(stopped_text()) : with_origins(error.message, flag_origins)) {
        bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        line += control ? ' ' : c;
    }
    std::fprintf(stderr, "%s\n", line.c_str());
    return exit_code(error.code);
}

}  // namespace sluice
