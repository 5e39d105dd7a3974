// The output file of a batch, to which a line is added as soon as it is answered, so that a batch
// that was stopped or killed goes on where it was.
//
// Locked while it is open: a second batch with the same file is refused. One thread.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

class BatchOutput {
 public:
    // Opens or creates `path`. Of an earlier run, answered lines stay; lines with an error, and a
    // last line that was not written whole, go, because they are run again. Refused, and left as it
    // is (usage, naming `flag`): a file that holds anything else, what is no regular file, and a
    // file that another process has open here.
    static Result<BatchOutput> open(std::string_view flag, const std::filesystem::path& path);
    BatchOutput(BatchOutput&& other) noexcept;
    BatchOutput& operator=(BatchOutput&&) = delete;
    ~BatchOutput();

    // The ids that an earlier run answered.
    const std::set<std::string>& answered() const { return answered_; }
    // Appends one line; it is in the file, whatever happens to this process, when this returns.
    Result<void> add(std::string_view line);

 private:
    BatchOutput() = default;
    Result<void> lock(std::string_view flag);
    Result<void> take_over(std::string_view flag);

    std::filesystem::path path_;
    int fd_ = -1;
    std::set<std::string> answered_;
};

}  // namespace sluice
