// The input of a batch, line by line, from a file or from standard input as it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/error.h"

namespace sluice {

class BatchInput {
 public:
    static Result<BatchInput> open(const std::string& path);
    explicit BatchInput(int fd) : fd_(fd) {}  // not closed
    BatchInput(BatchInput&& other) noexcept;
    BatchInput& operator=(BatchInput&&) = delete;
    ~BatchInput();

    // The next line that is not blank, without its end; nothing at the end of the input. Waits for
    // standard input; interrupted if the cancel flag is raised meanwhile. A line longer than
    // batch_line_max is cut to one byte more than that, which read_batch_line() refuses.
    Result<std::optional<std::string>> next();
    uint64_t number() const { return number_; }  // of the last line, from 1

 private:
    Result<bool> fill();
    std::optional<std::string> take_line();

    int fd_;
    bool owned_ = false, ended_ = false;
    std::string path_ = "standard input", buffer_;
    size_t begin_ = 0;  // of what next() has not given
    uint64_t number_ = 0;
};

}  // namespace sluice
