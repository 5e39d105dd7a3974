#include "engine/text/utf8_stream.h"

#include "engine/text/utf8.h"

namespace sluice {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
    held_ += bytes;
    std::string out;
    size_t at = 0;
    while (at < held_.size()) {
        const Utf8Step step = utf8_at(held_, at);
        if (step.state == Utf8State::unfinished) break;
        if (step.state == Utf8State::whole)
            out.append(held_, at, step.bytes);
        else
            out += replacement;
        at += step.bytes;
    }
    held_.erase(0, at);
    return out;
}

std::string Utf8Stream::finish() {
    const bool cut = !held_.empty();
    held_.clear();
    return cut ? std::string(replacement) : std::string();
}

}  // namespace sluice
