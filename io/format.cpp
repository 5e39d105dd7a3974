// fmt as headers, as in log.cpp: Debian has it as a shared object only.
#define FMT_HEADER_ONLY
#include "io/format.h"

#include <fmt/format.h>

namespace sluice::detail {

// Cannot throw but for memory: formatted() has checked the format against its values.
std::string format_values(fmt::string_view format, fmt::format_args values) {
    return fmt::vformat(format, values);
}

}  // namespace sluice::detail
