#include "kernels/paced_link.h"

#include <doctest/doctest.h>

#include <cstring>

#include "io/clock.h"

namespace sluice {
namespace {

std::unique_ptr<Backend> paced(double bytes_s) {
    auto cpu = make_cpu_backend({.threads = 1});
    REQUIRE(cpu);
    return make_paced_link(std::move(*cpu), bytes_s);
}

}  // namespace

TEST_CASE("a paced link brings the bytes, and no mark passes before its time") {
    constexpr size_t bytes = 1 << 20;
    auto link = paced(bytes / 0.02);  // 20 ms each
    CHECK(link->name().find("link held to 52 MB/s") != std::string::npos);
    auto to = link->allocate(2 * bytes, "test");
    REQUIRE(to);
    std::vector<std::byte> from(bytes, std::byte{7});
    const auto start = Clock::now();
    link->upload_beside(*to, from.data(), bytes);
    const uint64_t first = link->mark_uploads();
    link->upload_beside(*to + bytes, from.data(), bytes);
    const uint64_t second = link->mark_uploads();
    CHECK(second > first);
    CHECK(!link->uploads_done(second));
    link->compute_after_uploads(first);
    CHECK(seconds_since(start) >= 0.02);
    CHECK(link->uploads_done(first));
    REQUIRE(link->wait_uploads(second));
    CHECK(seconds_since(start) >= 0.04);
    CHECK(link->uploads_done(second));
    CHECK(std::memcmp(*to + bytes, from.data(), bytes) == 0);
    CHECK(link->counters().upload_s == doctest::Approx(0.04));
    CHECK(link->uploads_done(0));
}

TEST_CASE("a paced link does not save up the time in which nothing was sent") {
    constexpr size_t bytes = 1 << 20;
    auto link = paced(bytes / 0.02);
    auto to = link->allocate(bytes, "test");
    REQUIRE(to);
    std::vector<std::byte> from(bytes);
    const auto pause = Clock::now();
    while (seconds_since(pause) < 0.05) {
    }
    const auto start = Clock::now();
    link->upload_beside(*to, from.data(), bytes);
    REQUIRE(link->wait_uploads(link->mark_uploads()));
    CHECK(seconds_since(start) >= 0.02);
}

}  // namespace sluice
