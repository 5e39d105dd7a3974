#include "tools/terminal/history.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "io/file.h"
#include "io/format.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view head = "_HiStOrY_V2_\n";
constexpr size_t kept_entries = 1000;
constexpr uint64_t file_max = uint64_t{64} << 20;

std::string encoded(std::string_view entry) {
    std::string out;
    for (char c : entry) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte <= 0x20 || byte == 0x7f || c == '\\')
            out += formatted("\\{:03o}", byte);
        else
            out += c;
    }
    return out + '\n';
}

std::string decoded(std::string_view line) {
    const auto octal = [&](size_t at) { return line[at] >= '0' && line[at] <= '7'; };
    std::string out;
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 3 < line.size() && octal(i + 1) && octal(i + 2) &&
            octal(i + 3)) {
            out += static_cast<char>((line[i + 1] - '0') * 64 + (line[i + 2] - '0') * 8 +
                                     (line[i + 3] - '0'));
            i += 3;
        } else {
            if (line[i] == '\\' && i + 1 < line.size()) ++i;
            out += line[i];
        }
    }
    return out;
}

}  // namespace

History::History(std::string file) : file_(std::move(file)) {
    if (file_.empty()) return;
    const auto text = read_text(file_, file_max);
    if (!text) return;
    std::string_view rest = *text;
    if (rest.starts_with(head)) rest.remove_prefix(head.size());
    while (!rest.empty()) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        if (end > 0) entries_.push_back(decoded(rest.substr(0, end)));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (entries_.size() <= 2 * kept_entries) return;
    entries_.erase(entries_.begin(), entries_.end() - static_cast<long>(kept_entries));
    std::string whole(head);
    for (const std::string& entry : entries_) whole += encoded(entry);
    (void)write_file_whole(file_, whole);
}

void History::add(const std::string& entry) {
    if (entry.empty() || (!entries_.empty() && entries_.back() == entry)) return;
    entries_.push_back(entry);
    if (file_.empty()) return;
    const int fd = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    // One write, which another chat's cannot divide.
    const std::string line = cat(::lseek(fd, 0, SEEK_END) == 0 ? head : "", encoded(entry));
    [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
    ::close(fd);
}

}  // namespace sluice
