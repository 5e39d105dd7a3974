// Standard output as a script sees it: bytes, written whole or not at all, and a reader that may go
// away.
#pragma once

#include <string_view>

#include "io/error.h"

namespace sluice {

// Not buffered: what was written is with the reader. Requires SIGPIPE to be ignored
// (install_signals()).
class Output {
 public:
    explicit Output(int fd) : fd_(fd) {}

    // Writes everything; EINTR and short writes are gone on with. When the reader is gone the bytes
    // are dropped, reader_gone() holds, and it is no error; a full disk or a closed descriptor is
    // (Code::io).
    Result<void> write(std::string_view bytes);
    // Asks the pipe or socket without writing, so that a silent computation notices too.
    bool reader_gone();

 private:
    int fd_;
    bool gone_ = false;
};

}  // namespace sluice
