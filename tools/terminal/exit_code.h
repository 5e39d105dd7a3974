// What the process says when it ends. One table for every command.
#pragma once

#include <vector>

#include "io/error.h"
#include "tools/terminal/flag_origin.h"

namespace sluice {

enum ExitCode : int {
    exit_ok = 0,
    exit_mismatch = 1,    // --verify found a difference
    exit_usage = 2,       // a flag, a prompt, a context that is too small
    exit_checkpoint = 3,  // a file that is missing, damaged or of an unknown kind
    exit_machine = 4,     // memory or device
    exit_io = 5,          // drive, file system or standard output failed at run time
    exit_numerical = 6,   // a logit that is not finite
    // 128 and the number of a signal, as shells say.
    exit_hung_up = 129,      // SIGHUP: the terminal went away
    exit_interrupted = 130,  // SIGINT: Ctrl-C
    exit_reader_gone = 141,  // SIGPIPE: standard output was closed by its reader
    exit_terminated = 143,   // SIGTERM
};

ExitCode exit_code(Code code);

// Before the work: what errors say of flags from now on, see with_origins().
void set_flag_origins(std::vector<FlagOrigin> origins);

// "sluice: <message>" on stderr, on one line, whatever the message holds; returns the code of
// `error`. A flag it names is told with the origin of its value, where that is no flag. An
// interruption is told by its signal, and once.
int report_error(const Error& error);

}  // namespace sluice
