// Standard output as a script sees it: bytes that are written completely, and a reader that may
// close the pipe.
#pragma once

#include <string_view>

#include "io/error.h"

namespace sluice {

// Not buffered: what was written has reached the reader. Requires SIGPIPE to be ignored
// (install_signals()).
class Output {
 public:
    explicit Output(int fd) : fd_(fd) {}

    // Writes everything, continuing after EINTR and short writes. Once the reader is gone, bytes
    // are dropped and reader_gone() is true; that is not an error. A full drive or a closed
    // descriptor is one (io).
    Result<void> write(std::string_view bytes);
    // Asks the pipe or socket without writing, for computations that print nothing for a while.
    bool reader_gone();

 private:
    int fd_;
    bool gone_ = false;
};

// Whether the FILE of -o is standard output: "-", or a name that the system has for it.
bool names_standard_output(std::string_view path);

}  // namespace sluice
