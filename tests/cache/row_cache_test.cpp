#include "cache/row_cache.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

constexpr uint64_t rows = 500;
constexpr uint32_t codes_bytes = 32, scales_bytes = 3, request_max = 40;
constexpr uint64_t codes_offset = 1001, scales_offset = codes_offset + rows * codes_bytes + 77;

struct Table {
    TempFolder folder;
    std::string bytes;
    File file;
    ReadRing ring;

    explicit Table(uint64_t seed, SimFaults faults = {})
        : ring(std::make_unique<SimEngine>(seed, faults), 16) {
        std::mt19937_64 random(seed);
        bytes.resize(scales_offset + rows * scales_bytes);
        for (char& byte : bytes) byte = static_cast<char>(random());
        write_file(folder / "table", bytes);
        auto opened = File::open(folder / "table", Access::buffered);
        REQUIRE(opened);
        file = std::move(*opened);
        REQUIRE(ring.add_file(file));
    }
    RowTable table() const {
        return {&file, codes_offset, codes_bytes, scales_offset, scales_bytes, rows};
    }
};

struct Asked {
    std::vector<uint64_t> ids;
    std::vector<uint8_t> codes, scales;
    explicit Asked(std::vector<uint64_t> its_ids)
        : ids(std::move(its_ids)),
          codes(ids.size() * codes_bytes, 0xee),
          scales(ids.size() * scales_bytes, 0xee) {}

    Result<void> run(RowCache& cache) {
        auto asked = cache.request(ids, codes.data(), scales.data());
        return asked ? cache.wait() : asked;
    }
    bool exact(const Table& table) const {
        for (size_t i = 0; i < ids.size(); ++i) {
            const char* code = table.bytes.data() + codes_offset + ids[i] * codes_bytes;
            const char* scale = table.bytes.data() + scales_offset + ids[i] * scales_bytes;
            if (std::memcmp(&codes[i * codes_bytes], code, codes_bytes) != 0) return false;
            if (std::memcmp(&scales[i * scales_bytes], scale, scales_bytes) != 0) return false;
        }
        return true;
    }
};

Asked random_request(std::mt19937_64& random) {
    std::set<uint64_t> ids;
    for (uint64_t n = random() % (request_max + 1); ids.size() < n;) {
        const uint64_t id = random() % rows;
        ids.insert(random() % 2 ? id : id * id / rows * id / rows);  // some of them often
    }
    std::vector<uint64_t> order(ids.begin(), ids.end());
    std::shuffle(order.begin(), order.end(), random);
    return Asked(order);
}

}  // namespace

TEST_CASE("rows are the file's bytes, kept or read, whatever the capacity") {
    for (uint32_t capacity : {0u, 1u, 2u, 7u, 64u, 500u, 1000u}) {
        CAPTURE(capacity);
        Table table(capacity, {.short_read = 0.2, .again = 0.2, .reorder = 0.5, .late = 0.5});
        RowCache cache(table.ring, table.table(), capacity, request_max);
        std::mt19937_64 random(capacity);
        uint64_t asked = 0;
        for (int i = 0; i < 300; ++i) {
            Asked request = random_request(random);
            REQUIRE(request.run(cache));
            CHECK(request.exact(table));
            asked += request.ids.size();
        }
        CHECK(cache.asked() == asked);
        CHECK((cache.hits() == 0) == (capacity == 0));
        if (capacity < rows) continue;
        for (uint64_t first = 0; first < rows; first += 20) {
            Asked request({});
            for (uint64_t id = first; id < first + 20; ++id) request.ids.push_back(id);
            Asked fill(request.ids);
            REQUIRE(fill.run(cache));
        }
        const uint64_t bytes = cache.bytes_read(), hits = cache.hits();
        for (int i = 0; i < 20; ++i) {
            Asked request = random_request(random);
            asked = request.ids.size();
            const uint64_t before = cache.hits();
            REQUIRE(request.run(cache));
            CHECK(request.exact(table));
            CHECK(cache.hits() - before == asked);
        }
        CHECK(cache.bytes_read() == bytes);
        CHECK(cache.hits() > hits);
    }
}

TEST_CASE("a small cache keeps rows that are used again") {
    Table table(1);
    RowCache cache(table.ring, table.table(), 8, request_max);
    for (uint64_t round = 0; round < 20; ++round) {
        Asked often({1, 2, 3});
        REQUIRE(often.run(cache));
        CHECK(often.exact(table));
        Asked once({100 + 2 * round, 101 + 2 * round});
        REQUIRE(once.run(cache));
        CHECK(once.exact(table));
    }
    CHECK(cache.hits() == 19 * 3);
}

TEST_CASE("a failed read keeps nothing, and the next request is correct") {
    uint64_t failures = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        Table table(seed, {.short_read = 0.1, .eio = 0.02, .reorder = 0.5});
        RowCache cache(table.ring, table.table(), 100, request_max);
        std::mt19937_64 random(seed);
        for (int i = 0; i < 60; ++i) {
            Asked request = random_request(random);
            auto done = request.run(cache);
            if (done) {
                CHECK(request.exact(table));
            } else {
                ++failures;
                CHECK(done.error().code == Code::io);
            }
        }
    }
    CHECK(failures > 20);
}

TEST_CASE("wrong requests are refused") {
    Table table(1);
    RowCache cache(table.ring, table.table(), 10, 4);
    CHECK(cache.wait());  // nothing asked for
    Asked many({1, 2, 3, 4, 5});
    CHECK(many.run(cache).error().code == Code::usage);
    Asked beyond({rows});
    CHECK_FALSE(beyond.run(cache));
    Asked fine({1, 2});
    REQUIRE(cache.request(fine.ids, fine.codes.data(), fine.scales.data()));
    CHECK_FALSE(cache.request(fine.ids, fine.codes.data(), fine.scales.data()));
    REQUIRE(cache.wait());
    CHECK(fine.exact(table));
    CHECK(RowCache::memory(table.table(), 10, 4) >= 14 * (codes_bytes + scales_bytes));
}
