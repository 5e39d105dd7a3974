// Text with numbers in it: formatted("{:.1f} tok/s", rate), the format checked at compile time.
// Only format.cpp and log.cpp see more of fmt than its small core. Any thread.
#pragma once

#include <fmt/core.h>

#include <string>

namespace sluice {

namespace detail {
std::string format_values(fmt::string_view format, fmt::format_args values);
}  // namespace detail

template <class... T>
std::string formatted(fmt::format_string<T...> format, T&&... values) {
    return detail::format_values(format, fmt::make_format_args(values...));
}

}  // namespace sluice
