#include "engine/forward/expert_split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

std::vector<SplitItem> in_ram(int32_t count) {
    std::vector<SplitItem> items;
    for (int32_t i = 0; i < count; ++i) items.push_back({.expert = i, .rows = 1, .in_ram = true});
    return items;
}

size_t on_cpu(ExpertSplit& split, const std::vector<SplitItem>& items, double now) {
    std::vector<uint8_t> chosen;
    split.assign(items, now, chosen);
    REQUIRE(chosen.size() == items.size());
    return static_cast<size_t>(std::count(chosen.begin(), chosen.end(), 1));
}

// A split that knows both rates.
ExpertSplit settled(double link_s, double cpu_s) {
    ExpertSplit split(std::nullopt);
    for (int i = 0; i < 200; ++i) {
        split.link_took(link_s, 1, 0);
        split.cpu_took(cpu_s, 1, 0);
    }
    return split;
}

}  // namespace

TEST_CASE("the shares of link and CPU follow their rates") {
    for (auto [link, cpu, want] : {std::tuple{1.0, 1.0, 6u},
                                   {1.0, 2.0, 4u},
                                   {2.0, 1.0, 8u},
                                   {1.0, 5.0, 2u},
                                   {5.0, 1.0, 10u},
                                   {1.0, 13.0, 0u},
                                   {13.0, 1.0, 12u}}) {
        CAPTURE(link);
        CAPTURE(cpu);
        ExpertSplit split = settled(link, cpu);
        CHECK(on_cpu(split, in_ram(12), 0) == want);
    }
}

TEST_CASE("no other assignment finishes earlier") {
    for (double ratio : {0.1, 0.3, 0.9, 1.0, 1.7, 3.0, 5.5, 20.0}) {
        for (int32_t count = 1; count <= 8; ++count) {
            ExpertSplit split = settled(1.0, ratio);
            const size_t cpu = on_cpu(split, in_ram(count), 0);
            const auto ends = [&](size_t k) {
                const auto n = static_cast<size_t>(count);
                return std::max(static_cast<double>(k) * ratio, static_cast<double>(n - k));
            };
            for (size_t k = 0; k <= static_cast<size_t>(count); ++k) CHECK(ends(cpu) <= ends(k));
        }
    }
}

TEST_CASE("an expert that is still to be read goes to the side that finishes it first") {
    ExpertSplit split = settled(1.0, 1.5);
    split.drive_takes(10);  // a slow drive: each expert arrives alone
    std::vector<SplitItem> items = in_ram(4);
    for (SplitItem& item : items) item.in_ram = false;
    CHECK(on_cpu(split, items, 0) == 0);
    ExpertSplit fast_cpu = settled(1.0, 0.5);
    fast_cpu.drive_takes(10);
    CHECK(on_cpu(fast_cpu, items, 0) == 4);
}

TEST_CASE("experts with many rows go to the device") {
    ExpertSplit split = settled(1.0, 1.0);
    std::vector<SplitItem> items = in_ram(4);
    for (SplitItem& item : items) item.rows = 6;
    CHECK(on_cpu(split, items, 0) == 0);
    items[2].rows = 1;
    std::vector<uint8_t> chosen;
    split.assign(items, 0, chosen);
    CHECK(chosen == std::vector<uint8_t>{0, 0, 1, 0});
}

TEST_CASE("a requested share is kept whatever the rates") {
    for (auto [share, want] : {std::pair{0u, 0u}, {25u, 2u}, {50u, 4u}, {100u, 8u}}) {
        ExpertSplit split{std::optional<uint32_t>(share)};
        split.link_took(1e-9, 1, 0);
        CHECK(on_cpu(split, in_ram(8), 0) == want);
    }
}

TEST_CASE("a side without a rate is measured with one expert, a losing side rarely") {
    ExpertSplit split(std::nullopt);
    CHECK(on_cpu(split, in_ram(6), 0) == 1);
    for (int i = 0; i < 8; ++i) split.cpu_took(1.0, 1, 0);
    for (int i = 0; i < 8; ++i) split.link_took(0.01, 1, 0);
    CHECK(on_cpu(split, in_ram(6), 100) == 0);
    CHECK(on_cpu(split, in_ram(6), 201) == 1);  // 1 s of 200
    split.cpu_took(1.0, 1, 201);
    CHECK(on_cpu(split, in_ram(6), 202) == 0);
    // It became fast: a few measurements are enough.
    for (int i = 1; i < 12; ++i) split.cpu_took(0.001, 1, 202 + 200.0 * i);
    CHECK(on_cpu(split, in_ram(6), 202 + 200.0 * 11) >= 5);
}

TEST_CASE("rates drift, and a single outlier does not reverse the split") {
    ExpertSplit split = settled(1.0, 1.0);
    split.cpu_took(3.0, 1, 0);
    CHECK(on_cpu(split, in_ram(6), 0) >= 2);
    for (int i = 0; i < 60; ++i) split.cpu_took(3.0, 1, 0);
    CHECK(on_cpu(split, in_ram(6), 0) == 1);
}

}  // namespace sluice
