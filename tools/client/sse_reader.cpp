#include "tools/client/sse_reader.h"

#include <algorithm>

namespace sluice {

namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

tl::unexpected<Error> too_long() {
    return fail(Code::io, "an event of its stream is too long");
}

}  // namespace

// A line ends with a line feed, a carriage return, or both.
Result<void> SseReader::push(std::string_view bytes, const Handler& handler) {
    while (!bytes.empty()) {
        if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
        after_cr_ = false;
        const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
        if (line_.size() + end > event_max) return too_long();
        line_ += bytes.substr(0, end);
        if (end == bytes.size()) return {};
        after_cr_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        auto done = end_line(handler);
        line_.clear();
        if (!done) return done;
    }
    return {};
}

Result<void> SseReader::end_line(const Handler& handler) {
    std::string_view line = line_;
    if (first_ && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    first_ = false;
    if (line.empty()) {
        if (!has_data_) return {};
        has_data_ = false;
        const std::string data = std::move(data_);
        data_.clear();
        return handler({SseItem::Kind::event, data});
    }
    const size_t colon = line.find(':');
    std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (colon == 0) return handler({SseItem::Kind::comment, value});
    if (line.substr(0, colon) != "data") return {};
    if (data_.size() + value.size() >= event_max) return too_long();
    if (has_data_) data_ += '\n';
    has_data_ = true;
    data_ += value;
    return {};
}

}  // namespace sluice
