#include "tools/show.h"

#include <cstdio>

#include "io/text.h"

namespace sluice {

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

PromptProgress::PromptProgress(Session& session, bool enabled)
    : session_(session), status_(enabled) {
    if (!enabled) return;
    session_.set_progress([this](int32_t done, int32_t all) {
        if (all > 0) status_.show(cat("prompt ", int64_t{100} * done / all, " %"));
    });
}

void PromptProgress::finish() {
    session_.set_progress({});
    status_.erase();
}

}  // namespace sluice
