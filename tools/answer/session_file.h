// The FILE of --session: a conversation that grows by one question and one answer per run. It holds
// the messages, in the format of /save and --messages, and nothing else: their state is in the
// prompt cache, which --session turns on. A state is a shortcut that can always be made again, is
// thousands of times larger, and belongs to one build and device, while the messages are the
// user's, readable, and fit any model.
//
// The file is locked (flock) from open() on: a second run on it is refused, so no message is lost.
// It is replaced as a whole when an answer is complete; a run that fails or is killed leaves it as
// it was.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"

namespace sluice {

class SessionFile {
 public:
    // A file that does not exist, or is empty, is a new conversation. usage: no conversation, or no
    // regular file; such a file is never overwritten. io: in use by another run, or a permission is
    // missing.
    static Result<SessionFile> open(const std::filesystem::path& path);
    SessionFile(SessionFile&& other) noexcept;
    SessionFile& operator=(SessionFile&&) = delete;
    ~SessionFile();  // a new conversation that was not saved leaves no file

    const std::vector<Message>& messages() const { return messages_; }
    Result<void> save(const std::vector<Message>& messages);

 private:
    SessionFile() = default;
    Result<void> lock();
    Result<void> read();

    std::filesystem::path path_;  // links resolved
    int fd_ = -1;
    bool created_ = false;  // by this run, and still empty
    std::vector<Message> messages_;
};

}  // namespace sluice
