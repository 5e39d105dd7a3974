// Exit codes, and the one line that reports the error that ended a command. Used by every command.
#pragma once

#include <vector>

#include "io/error.h"
#include "tools/terminal/flag_origin.h"

namespace sluice {

enum ExitCode : int {
    exit_ok = 0,
    exit_mismatch = 1,    // --verify found a difference
    exit_usage = 2,       // a wrong flag or prompt, a context that is too small
    exit_checkpoint = 3,  // a file is missing, damaged or of an unknown kind
    exit_machine = 4,     // memory or device
    exit_io = 5,          // drive, file system or standard output failed at run time
    exit_numerical = 6,   // a logit is not finite
    // 128 plus the number of a signal, as in shells.
    exit_hung_up = 129,      // SIGHUP: the terminal went away
    exit_interrupted = 130,  // SIGINT: Ctrl-C
    exit_reader_gone = 141,  // SIGPIPE: standard output was closed by its reader
    exit_terminated = 143,   // SIGTERM
};

ExitCode exit_code(Code code);

// Call before the work: from then on errors say where values came from, see with_origins().
void set_flag_origins(std::vector<FlagOrigin> origins);

// Prints "sluice: <message>" on stderr as one line, whatever the message holds, and returns the
// exit code of `error`. Where the value of a flag that the message names came from elsewhere, the
// line says so. An interruption is reported once, by its signal.
int report_error(const Error& error);

}  // namespace sluice
