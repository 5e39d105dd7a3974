// What the process says when it ends. One table for every command.
#pragma once

#include "io/error.h"

namespace sluice {

enum ExitCode : int {
    exit_ok = 0,
    exit_mismatch = 1,    // --verify found a difference
    exit_usage = 2,       // a flag, a prompt, a context that is too small
    exit_checkpoint = 3,  // a file that is missing, damaged or of an unknown kind
    exit_machine = 4,     // memory or device
    exit_io = 5,          // drive, file system or standard output failed at run time
    exit_numerical = 6,   // a logit that is not finite
    exit_interrupted = 130,
    exit_reader_gone =
        141,  // standard output was closed by its reader: 128 + SIGPIPE, as shells say
};

ExitCode exit_code(Code code);

// "sluice: <message>" on stderr, on one line, whatever the message holds; returns the code of
// `error`.
int report_error(const Error& error);

}  // namespace sluice
