// Numbers that a user typed, read strictly: the whole text must be a finite number in range. Errors
// are usage and name the source (a flag, a variable, a line of a file), the text and the range.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

Result<int64_t> parse_integer(std::string_view source, std::string_view text, int64_t low,
                              int64_t high);

// A range; an open end is not part of it: {0, 1, true, false} is (0, 1].
struct RealRange {
    double low;
    double high;
    bool low_open = false;
    bool high_open = false;
    std::string text() const;  // "(0, 1]"
    bool holds(double value) const;
};
Result<double> parse_real(std::string_view source, std::string_view text, const RealRange& range);

// on/off, true/false, yes/no, 1/0.
Result<bool> parse_switch(std::string_view source, std::string_view text);

// Six significant digits without trailing zeros; integers in full.
std::string number_text(double value);

}  // namespace sluice
