#include "tools/terminal/show.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "io/clock.h"
#include "io/text.h"
#include "tools/terminal/edit_line.h"

namespace sluice {

namespace {

constexpr double eta_after_s = 2;

}  // namespace

void ThoughtStream::show(std::string_view text) {
    if (!shown_ || text.empty()) return;
    if (!open_ && color_) std::fputs("\x1b[2m", stderr);
    open_ = true;
    std::string out = tty_ ? visible(text) : std::string(text);
    std::fwrite(out.data(), 1, out.size(), stderr);
    std::fflush(stderr);
}

void ThoughtStream::end() {
    if (!open_) return;
    open_ = false;
    std::fputs(color_ ? "\x1b[0m\n\n" : "\n\n", stderr);
    std::fflush(stderr);
}

std::string wrapped(std::string_view text, size_t columns) {
    const size_t room = std::max<size_t>(columns, 8) - 1;
    std::string out;
    while (true) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string line(text.substr(0, end));
        size_t indent = line.find_first_not_of(' ', std::min(line.find("  "), line.size()));
        if (indent == line.npos || indent > room / 2) indent = 2;
        while (static_cast<size_t>(text_width(line)) > room) {
            const size_t space = line.rfind(' ', room);
            if (space == line.npos || line.find_first_not_of(' ') > space) break;
            out += cat(std::string_view(line).substr(0, space), "\n");
            line = std::string(indent, ' ') + line.substr(space + 1);
        }
        out += line;
        if (end == text.size()) return out;
        out += '\n';
        text.remove_prefix(end + 1);
    }
}

std::string duration_text(double seconds) {
    const auto all = static_cast<int64_t>(std::ceil(seconds));
    if (all >= 3600) return cat(all / 3600, " h ", all / 60 % 60, " min");
    return cat(all >= 60 ? cat(all / 60, " min ") : std::string(), all % 60, " s");
}

std::string progress_text(double done, double seconds) {
    const auto percent = static_cast<int>(100 * done);
    if (seconds < eta_after_s || done <= 0) return cat("prompt ", percent, " %");
    return cat("prompt ", percent, " %, ", duration_text(seconds * (1 - done) / done), " left");
}

PromptProgress::PromptProgress(Session& session, bool enabled)
    : session_(session), status_(enabled) {
    if (!enabled) return;
    session_.set_progress([this](double done) {
        const double since = seconds_since(start_);
        std::string text = progress_text(done, since);
        if (text != shown_) status_.show(text);
        shown_ = std::move(text);
    });
}

void PromptProgress::finish() {
    session_.set_progress({});
    status_.erase();
}

}  // namespace sluice
