#include "io/format.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

namespace sluice {
namespace {

TEST_CASE("formatted: numbers, text and widths") {
    CHECK(formatted("{:.1f} tok/s, {} of {}", 15.25, 3, std::string("seven")) ==
          "15.2 tok/s, 3 of seven");
    CHECK(formatted("{:>6}|{:<4}|{:016x}", "ab", 7, uint64_t{0xabc}) ==
          "    ab|7   |0000000000000abc");
    CHECK(formatted("{{}} {:5.1f} %", 99.96) == "{} 100.0 %");
}

}  // namespace
}  // namespace sluice
