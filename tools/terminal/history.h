// What was typed in earlier chats, in a file that several of them may add to at the same time.
#pragma once

#include <string>
#include <vector>

namespace sluice {

// An entry may have several lines. The file has an entry per line behind its first line, which is
// "_HiStOrY_V2_"; blanks, control bytes and backslashes are written as \ooo, as libedit does.
class History {
 public:
    explicit History(std::string file);  // empty: only this process's own

    size_t size() const { return entries_.size(); }
    const std::string& at(size_t index) const { return entries_[index]; }
    // At the end, unless it is the last one already; the file stays as it is where it cannot be
    // written.
    void add(const std::string& entry);

 private:
    std::string file_;
    std::vector<std::string> entries_;
};

}  // namespace sluice
