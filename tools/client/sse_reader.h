// Server-sent events (the format of text/event-stream) from bytes that come in any pieces. Every
// byte is hostile. Pure; any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

struct SseItem {
    enum class Kind { event, comment } kind;
    std::string_view text;  // the event's data, its lines joined by line feeds; the comment
};

// Fields other than "data" are skipped, as are events without data.
class SseReader {
 public:
    static constexpr size_t event_max = 16 << 20;  // bytes of a line, and of an event's data

    using Handler = std::function<Result<void>(const SseItem&)>;
    // Hands on what is complete. Errors: the handler's; io: an event that is too long. Nothing is
    // read after an error.
    Result<void> push(std::string_view bytes, const Handler& handler);

 private:
    Result<void> end_line(const Handler& handler);
    std::string line_, data_;
    bool has_data_ = false, after_cr_ = false, first_ = true;
};

}  // namespace sluice
