#include "kernels/selftest/selftest.h"

#include "tests/support/backends.h"

using namespace sluice;

// On the CPU the self-test proves the self-test: its cases pass on a right backend, and one flipped
// bit is refused by name.
TEST_CASE("the self-test passes on every CPU backend") {
    for (CpuIsa isa : cpu_isas()) {
        auto backend = make_cpu_backend({isa, 2});
        REQUIRE(backend.has_value());
        SelftestOptions options;
        options.rows_max = 65;
        options.repeats = 2;
        auto rows = selftest(**backend, options);
        REQUIRE_MESSAGE(rows.has_value(), rows.error().message);
        INFO((*backend)->name(), "\n", table(*rows));
        CHECK(passed(*rows));
        CHECK(rows->size() >= 30);
    }
}

TEST_CASE("a wrong kernel is named and refused") {
    for (const char* name : {"ActQuant", "LinearFp8 112x160", "RoutedExpert 160x288", "HyperMix"}) {
        auto backend = make_cpu_backend({CpuIsa::automatic, 2});
        REQUIRE(backend.has_value());
        SelftestOptions options;
        options.rows_max = 17;
        options.repeats = 1;
        options.break_operation = name;
        auto rows = selftest(**backend, options);
        REQUIRE(rows.has_value());
        CHECK_FALSE(passed(*rows));
        for (const auto& row : *rows) {
            CAPTURE(row.operation);
            CHECK(row.pass == (row.operation != name));
        }
    }
}
