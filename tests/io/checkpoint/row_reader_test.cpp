#include "io/checkpoint/row_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "io/text.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

enum class Engine { uring, threads, simulated };

// A file of random bytes with a table somewhere in it.
struct Rig {
    TempFolder folder;
    std::string bytes;
    File file;
    RowTable table;
    SimEngine* sim = nullptr;
    std::unique_ptr<ReadRing> ring;

    // Scales begin `between` bytes after the codes, and `behind` bytes follow up to the end.
    Rig(uint64_t rows, uint32_t codes, uint32_t scales, uint64_t before, uint64_t between,
        uint64_t behind, Access access = Access::direct) {
        table = {&file, before, codes, before + rows * codes + between, scales, rows};
        bytes.resize(table.scales_offset + rows * scales + behind);
        std::mt19937_64 random(rows + codes);
        for (char& byte : bytes) byte = static_cast<char>(random());
        write_file(folder / "rows.safetensors", bytes);
        auto opened = File::open(folder / "rows.safetensors", access);
        REQUIRE(opened);
        file = std::move(*opened);
    }

    void start(Engine engine, uint32_t depth, uint64_t seed = 0, SimFaults faults = {}) {
        std::unique_ptr<RingEngine> made;
        if (engine == Engine::simulated) {
            made = std::make_unique<SimEngine>(seed, faults);
            sim = static_cast<SimEngine*>(made.get());
        } else {
            const bool uring = engine == Engine::uring;
            const RingOptions options{uring ? IoEngine::uring : IoEngine::threads, depth, 4};
            auto result = uring ? make_uring_engine(options) : make_threads_engine(options);
            REQUIRE(result);
            made = std::move(*result);
        }
        ring = std::make_unique<ReadRing>(std::move(made), depth);
        REQUIRE(ring->add_file(file));
    }

    // What the destination should hold: codes of all rows, then scales of all rows.
    std::string expected(const std::vector<uint64_t>& rows) const {
        std::string codes, scales;
        for (const uint64_t row : rows) {
            codes += bytes.substr(table.codes_offset + row * table.codes_bytes, table.codes_bytes);
            scales +=
                bytes.substr(table.scales_offset + row * table.scales_bytes, table.scales_bytes);
        }
        return codes + scales;
    }

    std::vector<uint64_t> random_rows(size_t count, std::mt19937_64& random) const {
        std::set<uint64_t> chosen;
        while (chosen.size() < std::min<uint64_t>(count, table.rows)) {
            chosen.insert(random() % table.rows);
        }
        std::vector<uint64_t> rows(chosen.begin(), chosen.end());
        std::shuffle(rows.begin(), rows.end(), random);
        return rows;
    }
};

// One request into an unaligned destination with guards at both ends.
std::string read_rows(RowReader& reader, const RowTable& table, const std::vector<uint64_t>& rows) {
    const size_t codes = rows.size() * table.codes_bytes;
    const size_t scales = rows.size() * table.scales_bytes;
    std::string out(1 + codes + scales + 1, '\x5a');
    auto* to = reinterpret_cast<uint8_t*>(out.data()) + 1;
    REQUIRE(reader.request(rows, to, to + codes));
    const auto done = reader.wait();
    if (!done) MESSAGE(done.error().message);
    REQUIRE(done);
    CHECK(out.front() == '\x5a');
    CHECK(out.back() == '\x5a');
    return out.substr(1, codes + scales);
}

}  // namespace

TEST_CASE("rows: codes and scales arrive in the order requested, on every engine") {
    for (const Engine engine : {Engine::uring, Engine::threads, Engine::simulated}) {
        for (const Access access : {Access::direct, Access::buffered}) {
            CAPTURE(static_cast<int>(engine));
            Rig rig(5000, 256, 8, 1237, 99, 0, access);
            rig.start(engine, 32);
            RowReader reader(*rig.ring, rig.table, 48);
            std::mt19937_64 random(1);
            for (int i = 0; i < 20; ++i) {
                const auto rows = rig.random_rows(1 + random() % 48, random);
                CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
            }
        }
    }
}

TEST_CASE("rows: any drive, any depth, any geometry") {
    for (uint64_t seed = 0; seed < 150; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        Rig rig(1 + random() % 900, 1 + random() % 700, 1 + random() % 40, random() % 9000,
                random() % 9000, random() % 3 ? random() % 5000 : 0);
        rig.start(Engine::simulated, 1 + static_cast<uint32_t>(random() % 20), seed,
                  {.short_read = 0.2, .again = 0.1, .reorder = 0.8, .late = 0.5});
        RowReader reader(*rig.ring, rig.table, 300);
        for (int i = 0; i < 4; ++i) {
            const auto rows = rig.random_rows(random() % 300, random);
            CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
        }
    }
}

TEST_CASE("rows: more rows than the ring's depth, and all of a table") {
    Rig rig(4000, 256, 8, 80, 0, 0);
    for (const uint32_t depth : {1u, 2u, 8u}) {
        CAPTURE(depth);
        rig.start(Engine::threads, depth);
        RowReader reader(*rig.ring, rig.table, 4000);
        std::mt19937_64 random(depth);
        const auto rows = rig.random_rows(4000, random);
        CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
        CHECK(reader.bytes_read() <= rig.bytes.size());
    }
}

TEST_CASE("rows: rows longer than a staging area") {
    Rig rig(9, 200'003, 70'001, 5, 3, 0);
    rig.start(Engine::threads, 6);
    RowReader reader(*rig.ring, rig.table, 9);
    const std::vector<uint64_t> rows{8, 0, 3, 4, 5};
    CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
}

TEST_CASE("rows: no block is read twice or without need") {
    Rig rig(3000, 256, 8, 1237, 99, 0);
    rig.start(Engine::simulated, 64);
    RowReader reader(*rig.ring, rig.table, 2000);
    std::mt19937_64 random(5);
    const uint64_t block = rig.file.alignment();
    for (const size_t count : {1, 48, 2000}) {
        CAPTURE(count);
        const size_t before = rig.sim->submitted().size();
        const auto rows = rig.random_rows(count, random);
        CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
        std::set<uint64_t> needed;
        for (const uint64_t row : rows) {
            const auto add = [&](uint64_t begin, uint64_t bytes) {
                for (uint64_t b = begin / block; b <= (begin + bytes - 1) / block; ++b) {
                    needed.insert(b);
                }
            };
            add(rig.table.codes_offset + row * 256, 256);
            add(rig.table.scales_offset + row * 8, 8);
        }
        std::set<uint64_t> read;
        for (size_t i = before; i < rig.sim->submitted().size(); ++i) {
            const RingEngine::Raw& raw = rig.sim->submitted()[i];
            for (uint64_t at = raw.offset; at < raw.offset + raw.length; at += block) {
                CHECK(read.insert(at / block).second);
            }
        }
        CHECK(read == needed);
    }
}

TEST_CASE("rows: the last row ends with the file") {
    for (const uint64_t behind : {0, 1, 511}) {
        CAPTURE(behind);
        Rig rig(777, 256, 8, 33, 0, behind);
        for (const Engine engine : {Engine::uring, Engine::threads}) {
            rig.start(engine, 8);
            RowReader reader(*rig.ring, rig.table, 8);
            const std::vector<uint64_t> rows{776, 0, 775};
            CHECK(read_rows(reader, rig.table, rows) == rig.expected(rows));
        }
    }
}

TEST_CASE("rows: a failed read names the row and the file, and the next request works") {
    Rig rig(3000, 256, 8, 0, 0, 0);
    rig.start(Engine::simulated, 16, 1, {.bad_begin = 256 * 1000, .bad_end = 256 * 1000 + 1});
    RowReader reader(*rig.ring, rig.table, 100);
    std::vector<uint8_t> codes(100 * 256), scales(100 * 8);
    const std::vector<uint64_t> rows{5, 1000, 2900};
    REQUIRE(reader.request(rows, codes.data(), scales.data()));
    const auto failed = reader.wait();
    REQUIRE(!failed);
    CHECK(failed.error().code == Code::io);
    CHECK(failed.error().message.find("row 1000: ") == 0);
    CHECK(failed.error().message.find("rows.safetensors") != std::string::npos);
    CHECK(rig.ring->in_flight() == 0);
    const std::vector<uint64_t> good{5, 2900};
    CHECK(read_rows(reader, rig.table, good) == rig.expected(good));
}

TEST_CASE("rows: reads start with the request, before wait()") {
    Rig rig(3000, 256, 8, 0, 0, 0);
    rig.start(Engine::simulated, 16);
    RowReader reader(*rig.ring, rig.table, 4);
    std::vector<uint8_t> codes(4 * 256), scales(4 * 8);
    const std::vector<uint64_t> rows{1, 700, 2000};
    REQUIRE(reader.request(rows, codes.data(), scales.data()));
    CHECK(rig.sim->submitted().size() >= 4);
    CHECK(reader.wait());
    CHECK(reader.wait());  // nothing to do
}

TEST_CASE("rows: a request advances when another client reaps") {
    Rig rig(3000, 256, 8, 0, 0, 0);
    rig.start(Engine::simulated, 4);
    RowReader reader(*rig.ring, rig.table, 200);
    std::mt19937_64 random(3);
    const auto rows = rig.random_rows(200, random);
    std::string out(200 * 264, '\0');
    auto* to = reinterpret_cast<uint8_t*>(out.data());
    REQUIRE(reader.request(rows, to, to + 200 * 256));
    while (rig.ring->in_flight() > 0) REQUIRE(rig.ring->reap(true));
    CHECK(out == rig.expected(rows));
    CHECK(reader.wait());
}

TEST_CASE("rows: destroying a reader leaves no read in flight") {
    Rig rig(3000, 256, 8, 0, 0, 0);
    rig.start(Engine::threads, 8);
    auto reader = std::make_unique<RowReader>(*rig.ring, rig.table, 500);
    std::mt19937_64 random(3);
    const auto rows = rig.random_rows(500, random);
    std::vector<uint8_t> codes(500 * 256), scales(500 * 8);
    REQUIRE(reader->request(rows, codes.data(), scales.data()));
    reader.reset();
    CHECK(rig.ring->in_flight() == 0);
}

TEST_CASE("rows: a table as large as the real one, in a sparse file") {
    TempFolder folder;
    const auto path = folder / "table.safetensors";
    const uint64_t rows = 384'006'168, codes_offset = 6 * 1024 + 8 + 1;
    const uint64_t scales_offset = codes_offset + rows * 256;
    write_file(path, "");
    std::filesystem::resize_file(path, scales_offset + rows * 8);
    const std::vector<uint64_t> chosen{rows - 1, 0, 16'777'216, rows / 2, 16'777'217};
    std::string want_codes, want_scales;
    {
        std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
        for (const uint64_t row : chosen) {
            const std::string codes(256, static_cast<char>('a' + row % 26));
            const std::string scales(8, static_cast<char>('A' + row % 26));
            stream.seekp(static_cast<std::streamoff>(codes_offset + row * 256));
            stream << codes;
            stream.seekp(static_cast<std::streamoff>(scales_offset + row * 8));
            stream << scales;
            want_codes += codes;
            want_scales += scales;
        }
        REQUIRE(stream.good());
    }
    auto file = File::open(path);
    REQUIRE(file);
    auto engine = make_threads_engine({IoEngine::threads, 8, 2});
    REQUIRE(engine);
    ReadRing ring(std::move(*engine), 8);
    REQUIRE(ring.add_file(*file));
    const RowTable table{&*file, codes_offset, 256, scales_offset, 8, rows};
    RowReader reader(ring, table, 8);
    CHECK(read_rows(reader, table, chosen) == want_codes + want_scales);
}
