#include "tools/terminal/show.h"

#include <cmath>
#include <cstdio>

#include "io/clock.h"
#include "io/text.h"

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
