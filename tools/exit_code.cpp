#include "tools/exit_code.h"

#include <cstdio>
#include <string>

namespace sluice {

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
            return exit_interrupted;
    }
    return exit_machine;
}

int report_error(const Error& error) {
    std::string line = "sluice: ";
    bool stopped = error.code == Code::interrupted;  // where it was does not matter
    for (char c : stopped ? std::string("interrupted") : error.message) {
        bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        line += control ? ' ' : c;
    }
    std::fprintf(stderr, "%s\n", line.c_str());
    return exit_code(error.code);
}

}  // namespace sluice
