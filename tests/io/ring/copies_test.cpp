// Copies on drives with blocks of different sizes: any of them can serve a read planned for one.
#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <random>

#include "io/checkpoint/row_reader.h"
#include "tests/support/expert_rig.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

// Drive 0 has the original of each file, drive 1 its copy; one of them has larger blocks than the
// machine's drive. No file is a whole number of blocks.
struct Case {
    uint32_t coarse;                // the drive with larger blocks
    uint32_t block;                 // their size
    std::optional<uint32_t> fails;  // the drive whose reads all fail
};

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const uint32_t block : {4096u, 16384u}) {
        for (const uint32_t coarse : {0u, 1u}) {
            all.push_back({coarse, block, std::nullopt});
            for (const uint32_t fails : {0u, 1u}) all.push_back({coarse, block, fails});
        }
    }
    return all;
}

File open_on(uint32_t drive, const Case& c, const std::filesystem::path& path) {
    auto file = File::open(path);
    if (!file) FAIL(file.error().message);
    file->set_drive(drive);
    if (drive == c.coarse) file->raise_alignment(c.block);
    return std::move(*file);
}

// A ring over both copies of each file, on drives that refuse reads of other than whole blocks.
std::unique_ptr<ReadRing> start(const Case& c, std::vector<std::array<File*, 2>> files,
                                SimFaults faults = {}) {
    auto engine = std::make_unique<SimEngine>(11, faults);
    for (const uint32_t drive : {0u, 1u}) {
        const uint32_t own = files.front()[drive]->own_alignment();
        engine->set_block(drive, drive == c.coarse ? std::max(c.block, own) : own);
    }
    if (c.fails) engine->fail(*c.fails);
    auto ring = std::make_unique<ReadRing>(std::move(engine), 32);
    for (const auto& copies : files) {
        align_copies(copies);
        for (const File* file : copies) REQUIRE(ring->add_file(*file));
        ring->add_copies(std::array<const File*, 2>{copies[0], copies[1]});
    }
    return ring;
}

void check_drives(const Case& c, const ReadRing& ring) {
    for (const uint32_t drive : {0u, 1u}) {
        CAPTURE(drive);
        CHECK(ring.drive_failed(drive) == (c.fails == drive));
        CHECK((ring.drive(drive).bytes() > 0) == (c.fails != drive));
    }
}

}  // namespace

TEST_CASE("copies: each has the largest alignment of all, and keeps it when moved") {
    const TempFolder folder = TempFolder::on_drive();
    const auto path = folder.write("a", random_bytes(10'000, 1));
    std::vector<File> files;
    for (const uint32_t least : {512u, 16384u, 8192u}) {
        auto file = File::open(path);
        REQUIRE(file);
        file->raise_alignment(least);
        files.push_back(std::move(*file));
    }
    const uint32_t own = files[0].own_alignment();
    CHECK(files[0].alignment() == std::max(own, 512u));
    align_copies(std::array{&files[0], &files[1], &files[2]});
    const File moved = std::move(files[2]);
    CHECK(files[0].alignment() == 16384);
    CHECK(files[1].alignment() == 16384);
    CHECK(moved.alignment() == 16384);
    files[0] = std::move(files[1]);
    CHECK(files[0].alignment() == 16384);
    // The file's own alignment stays as it was.
    CHECK(moved.own_alignment() == own);
    CHECK(moved.resume_at(3 * own + 1) ==
          (moved.access() == Access::direct ? 3 * own : 3 * own + 1));
}

TEST_CASE("copies: a model and its mirror on another file system get the same alignment") {
    ExpertShards shards;
    shards.experts = 2;
    const TempFolder disk = TempFolder::on_drive(), memory("sluice", "/dev/shm");
    for (const auto& [model, mirror] : {std::pair(&disk, &memory), std::pair(&memory, &disk)}) {
        for (const TempFolder* folder : {model, mirror}) {
            shards.write(folder->path(), {0, 1}, folder == model);
        }
        const auto opened = Checkpoint::open(
            {{model->path().string()}, "", Access::direct, false, {mirror->path().string()}});
        REQUIRE(opened);
        for (size_t i = 0; i < 2; ++i) {
            const File &first = opened->shards()[i], &copy = opened->copies()[i].at(0);
            CHECK(first.alignment() == std::max(first.own_alignment(), copy.own_alignment()));
            CHECK(copy.alignment() == first.alignment());
        }
        MESSAGE("own alignments: ", opened->shards()[0].own_alignment(), ", ",
                opened->copies()[0][0].own_alignment());
    }
}

TEST_CASE("copies: experts from drives with different blocks, with and without a failing drive") {
    ExpertShards shards;
    shards.experts = 4;
    shards.codes = (300u << 10) + 7;
    shards.scales = 9'001;
    const TempFolder first = TempFolder::on_drive(), second = TempFolder::on_drive();
    shards.write(first.path(), {0, 1}, true);
    shards.write(second.path(), {0, 1}, false);
    // Knows where the tensors are.
    Rig plain(first.path(), {}, Access::buffered);
    for (const Case& c : cases()) {
        CAPTURE(c.coarse);
        CAPTURE(c.block);
        CAPTURE(c.fails.value_or(2));
        std::vector<File> originals;
        std::vector<std::vector<File>> copies(2);
        for (int32_t shard = 0; shard < 2; ++shard) {
            const std::string name = ExpertShards::name(shard, 2);
            originals.push_back(open_on(0, c, first.path() / name));
            copies[static_cast<size_t>(shard)].push_back(open_on(1, c, second.path() / name));
        }
        const auto ring = start(c, {{&originals[0], &copies[0][0]}, {&originals[1], &copies[1][0]}},
                                {.short_read = 0.1, .reorder = 0.5});
        ExpertMap map(2, shards.experts, originals, {2, 64u << 10, 8}, copies);
        for (int32_t layer = 0; layer < 2; ++layer) {
            for (int32_t expert = 0; expert < shards.experts; ++expert) {
                REQUIRE(map.add({layer, expert}, parts_of(plain.checkpoint, {layer, expert})));
            }
        }
        ExpertReader reader(*ring, map);
        auto memory = PageBuffer::create(map.slot_bytes() * 8, "test");
        REQUIRE(memory);
        for (int32_t i = 0; i < 8; ++i) {
            reader.request({i % 2, i / 2}, memory->data() + i * map.slot_bytes(),
                           i < 5 ? Urgency::demand : Urgency::prefetch);
        }
        while (reader.pending() > 0) {
            Arrived arrived[8];
            const auto count = reader.collect(arrived, true);
            REQUIRE(count);
            for (size_t i = 0; i < *count; ++i) {
                if (arrived[i].error) FAIL(arrived[i].error->message);
                for (int part = 0; part < expert_parts; ++part) {
                    const auto at = static_cast<ExpertPart>(part);
                    const ByteRange range = map.range(arrived[i].key, at);
                    std::string want(range.length, '\0');
                    REQUIRE(map.file(arrived[i].key).read(range.offset, want.data(), want.size()));
                    const uint64_t start = map.plan(arrived[i].key).starts[at];
                    REQUIRE(start + range.length <= map.slot_bytes());
                    CHECK(std::memcmp(arrived[i].slot + start, want.data(), want.size()) == 0);
                }
            }
        }
        check_drives(c, *ring);
    }
}

TEST_CASE("copies: rows of a table from the first drive or, if it fails, from another") {
    constexpr uint64_t rows = 900, codes = 1237, scales = codes + rows * 256 + 99;
    const std::string bytes = random_bytes(scales + rows * 8, 5);  // ends with the last row
    const TempFolder first = TempFolder::on_drive(), second = TempFolder::on_drive();
    const auto original_path = first.write("rows", bytes), copy_path = second.write("rows", bytes);
    for (const Case& c : cases()) {
        CAPTURE(c.coarse);
        CAPTURE(c.block);
        CAPTURE(c.fails.value_or(2));
        File original = open_on(0, c, original_path), copy = open_on(1, c, copy_path);
        const auto ring = start(c, {{&original, &copy}}, {.short_read = 0.1, .reorder = 0.5});
        const RowTable table{&original, codes, 256, scales, 8, rows};
        RowReader reader(*ring, table, rows);
        CHECK(row_stage_bytes(table) % original.alignment() == 0);
        std::vector<uint64_t> wanted(rows);
        std::iota(wanted.begin(), wanted.end(), 0);
        std::shuffle(wanted.begin(), wanted.end(), std::mt19937_64(c.block));
        for (const size_t count : {size_t{1}, size_t{60}, size_t{rows}}) {
            const std::span<const uint64_t> some(wanted.data() + rows - count, count);
            std::string got(count * (256 + 8), '\0'), want;
            auto* to = reinterpret_cast<uint8_t*>(got.data());
            REQUIRE(reader.request(some, to, to + count * 256));
            const auto done = reader.wait();
            if (!done) FAIL(done.error().message);
            for (const uint64_t row : some) want += bytes.substr(codes + row * 256, 256);
            for (const uint64_t row : some) want += bytes.substr(scales + row * 8, 8);
            CHECK(got == want);
        }
        CHECK(ring->drive_failed(0) == (c.fails == 0u));
        CHECK((ring->drive(1).bytes() > 0) == (c.fails == 0u));
    }
}

TEST_CASE("copies: a row stage holds a whole block, also for a table that is only planned") {
    CHECK(row_stage_bytes({nullptr, 0, 256, 0, 8, 10}) == 64u << 10);
    const TempFolder folder = TempFolder::on_drive();
    File file = open_on(0, {0, 1u << 20, {}}, folder.write("rows", random_bytes(5000, 1)));
    CHECK(row_stage_bytes({&file, 0, 256, 4000, 8, 10}) == 1u << 20);
}
