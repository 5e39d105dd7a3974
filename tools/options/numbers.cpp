#include "tools/options/numbers.h"

#include <charconv>
#include <cmath>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

std::string number_text(double value) {
    const bool whole =
        std::isfinite(value) && value == std::floor(value) && std::fabs(value) < 1e15;
    return whole ? formatted("{:.0f}", value) : formatted("{:.6g}", value);
}

Result<int64_t> parse_integer(std::string_view source, std::string_view text, int64_t low,
                              int64_t high) {
    int64_t value = 0;
    const char* begin = text.data();
    const char* end = begin + text.size();
    if (text.size() > 1 && *begin == '+') ++begin;
    auto [stop, status] = std::from_chars(begin, end, value);
    bool parsed = status == std::errc() && stop == end && begin != end;
    if (parsed && value >= low && value <= high) return value;
    return fail(Code::usage, cat(source, ": \"", printable(text), "\" is not a whole number from ",
                                 low, " to ", high));
}

std::string RealRange::text() const {
    std::string high_text = std::isinf(high) ? "infinity" : number_text(high);
    return cat(low_open ? "(" : "[", number_text(low), ", ", high_text, high_open ? ")" : "]");
}

bool RealRange::holds(double value) const {
    bool above = low_open ? value > low : value >= low;
    bool below = high_open ? value < high : value <= high;
    return above && below;  // false for NaN
}

Result<double> parse_real(std::string_view source, std::string_view text, const RealRange& range) {
    double value = 0;
    const char* begin = text.data();
    const char* end = begin + text.size();
    if (text.size() > 1 && *begin == '+') ++begin;
    auto [stop, status] = std::from_chars(begin, end, value);
    bool parsed = status == std::errc() && stop == end && std::isfinite(value);
    if (parsed && range.holds(value)) return value;
    return fail(Code::usage,
                cat(source, ": \"", printable(text), "\" is not a number in ", range.text()));
}

Result<bool> parse_switch(std::string_view source, std::string_view text) {
    for (std::string_view on : {"on", "true", "yes", "1"}) {
        if (text == on) return true;
    }
    for (std::string_view off : {"off", "false", "no", "0"}) {
        if (text == off) return false;
    }
    return fail(Code::usage, cat(source, ": \"", printable(text), "\" is not on or off"));
}

}  // namespace sluice
