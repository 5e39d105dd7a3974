// What options say together, and where their values are from.
#include <doctest/doctest.h>

#include <array>

#include "tests/tools/option_scene.h"
#include "tools/flag_origin.h"

using namespace sluice;

TEST_CASE("an error names the variable or line that a value is from, not a flag nobody gave") {
    Scene s;
    variables = {{"SLUICE_TEMP", "abc"}};
    CHECK(s.bad({"m"}).starts_with("SLUICE_TEMP: \"abc\""));
    variables.clear();
    write_file(s.config, "temp = \"abc\"\n");
    CHECK(s.bad({"m"}).starts_with(s.config + " line 1: temp: \"abc\""));
    write_file(s.config, "\nstop = [\"a\", \"\"]\n");
    CHECK(contains(s.bad({"m"}), "(--stop is from " + s.config + " line 2: stop)"));
    write_file(s.config, "predict = 200\n");
    variables = {{"SLUICE_CTX_SIZE", "100"}};
    CHECK(contains(s.bad({"m"}), "(-n is from " + s.config +
                                     " line 1: predict, "
                                     "-c is from SLUICE_CTX_SIZE)"));
    CHECK(contains(s.bad({"m", "-n", "300"}), "(-c is from SLUICE_CTX_SIZE)"));
    CHECK_FALSE(contains(s.bad({"m", "-n", "300", "-c", "100"}), "is from"));
}

TEST_CASE("origins: of flags that a message names whole, once each") {
    const std::array<FlagOrigin, 2> origins = {FlagOrigin{{"-c", "--ctx-size"}, "SLUICE_CTX_SIZE"},
                                               FlagOrigin{{"--ram"}, "f line 1: ram"}};
    CHECK(with_origins("--ram 9 TiB is more", origins) ==
          "--ram 9 TiB is more (--ram is from f line 1: ram)");
    CHECK(with_origins("full (-c)", origins) == "full (-c) (-c is from SLUICE_CTX_SIZE)");
    for (const char* other : {"--vram", "--ram-disk", "x--ram", "a/--ram", "-chunk", "",
                              "f line 1: ram: --ram holds no model"}) {
        CHECK(with_origins(other, origins) == other);
    }
    CHECK(with_origins("--ram-x, --ram", origins) ==
          "--ram-x, --ram (--ram is from f line 1: ram)");
}
