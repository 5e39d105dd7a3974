// Several drives at once: spread shards, mirrors, drives that slow down or fail.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <map>
#include <sstream>
#include <tuple>

#include "io/ring/share_reads.h"
#include "tests/support/expert_rig.h"
#include "tests/support/sim_clock.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

using State = DriveStats::State;

constexpr double mb = 1e6;
constexpr ExpertTuning tuning{2, 64u << 10, 8};

// From some time on, reads of one drive fail.
class FailingDrive final : public RingEngine {
 public:
    explicit FailingDrive(uint32_t drive) : drive_(drive) {}
    void fail_after(uint64_t reads) { left_ = reads; }
    uint64_t asked() const { return asked_; }

    const char* name() const override { return "failing"; }
    Result<void> add_file(int) override { return {}; }
    Result<void> add_memory(std::span<std::byte>) override { return {}; }
    Result<void> submit(std::span<const Raw> reads) override {
        for (const Raw& read : reads) {
            if (read.drive != drive_) continue;
            ++asked_;
            if (left_ == 0) failing_.insert({read.id, true});
            if (left_ > 0) --left_;
        }
        return inner_.submit(reads);
    }
    Result<size_t> reap(std::span<RawDone> out, bool wait) override {
        auto count = inner_.reap(out, wait);
        for (size_t i = 0; count && i < *count; ++i) {
            if (failing_.erase(out[i].id) > 0) out[i].result = -EIO;
        }
        return count;
    }

 private:
    const uint32_t drive_;
    uint64_t left_ = UINT64_MAX, asked_ = 0;
    std::map<uint32_t, bool> failing_;
    SimEngine inner_{3};
};

struct Drives {
    TempFolder first, second;
    ExpertShards shards;
    std::unique_ptr<Rig> rig;
    SimClock* clock = nullptr;
    PacedEngine* paced = nullptr;

    // Half of the shards on each.
    void spread() {
        shards.write(first.path(), {0}, true);
        shards.write(second.path(), {1}, false);
        rig = std::make_unique<Rig>(
            CheckpointOptions{{first.path(), second.path()}, "", Access::buffered}, tuning);
    }
    void mirror(const std::vector<int32_t>& copied, ExpertTuning with = tuning) {
        shards.write(first.path(), {0, 1}, true);
        shards.write(second.path(), copied, false);
        rig = std::make_unique<Rig>(
            CheckpointOptions{
                {first.path()}, "", Access::buffered, false, {second.path().string()}},
            with);
    }
    void pace(std::vector<DrivePace> paces, uint32_t depth = 128) {
        auto simulated = std::make_unique<SimClock>();
        clock = simulated.get();
        auto engine = std::make_unique<PacedEngine>(std::make_unique<SimEngine>(5),
                                                    std::move(paces), depth, std::move(simulated));
        paced = engine.get();
        rig->start(std::move(engine), depth);
    }
    // Reads all experts, alternating between the layers. Returns bytes per second.
    double read_all() {
        const double start = clock ? clock->seconds() : 0;
        const uint64_t before = rig->reader->bytes_read();
        rig->slots.clear();
        for (int32_t expert = 0; expert < shards.experts; ++expert) {
            for (int32_t layer = 0; layer < shards.layers; ++layer) rig->request({layer, expert});
        }
        for (const Arrived& arrived : rig->collect_all()) {
            if (arrived.error) FAIL(arrived.error->message);
            REQUIRE(rig->holds(arrived.slot, arrived.key));
        }
        const auto bytes = static_cast<double>(rig->reader->bytes_read() - before);
        return clock ? bytes / (clock->seconds() - start) : 0;
    }
};

// Captures what is written to stderr until lines().
class Warnings {
 public:
    Warnings() : kept_(dup(2)) {
        const int file = open(path_.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
        dup2(file, 2);
        close(file);
    }
    ~Warnings() { restore(); }
    std::vector<std::string> lines() {
        restore();
        std::istringstream text(read_file(path_));
        std::vector<std::string> out;
        for (std::string line; std::getline(text, line);) out.push_back(line);
        return out;
    }

 private:
    void restore() {
        if (kept_ < 0) return;
        dup2(kept_, 2);
        close(kept_);
        kept_ = -1;
    }
    TempFolder folder_;
    std::string path_ = folder_ / "stderr";
    int kept_;
};

uint64_t sum(std::span<const uint64_t> values) {
    uint64_t all = 0;
    for (uint64_t value : values) all += value;
    return all;
}

}  // namespace

TEST_CASE(
    "shares: in proportion to speed, less for a drive with more to do, none below the minimum") {
    std::vector<uint64_t> shares(2);
    const auto share = [&](std::vector<CopyState> copies, uint64_t total, uint64_t least) {
        share_bytes(total, 4096, least, copies, shares);
        CHECK(sum(shares) == total);
        for (uint64_t part : shares) CHECK(part % 4096 == 0);
        return shares;
    };
    const uint64_t total = 30 * 4096;
    CHECK(share({{2, 0}, {1, 0}}, total, 1) == std::vector<uint64_t>{20 * 4096, 10 * 4096});
    // The first still has 10 blocks to deliver: 40 in all, divided into 26.7 - 10 and 13.3.
    CHECK(share({{2, 10 * 4096}, {1, 0}}, total, 1)[1] == 13 * 4096);
    CHECK(share({{2, 1000 * 4096}, {1, 0}}, total, 1) == std::vector<uint64_t>{0, total});
    CHECK(share({{100, 0}, {1, 0}}, total, 2 * 4096) == std::vector<uint64_t>{total, 0});
    CHECK(share({{2, 0, false}, {1, 0}}, total, 1) == std::vector<uint64_t>{0, total});
    CHECK(share({{2, 0}, {1, 0}}, 4096, 4096) == std::vector<uint64_t>{4096, 0});
}

TEST_CASE(
    "shares: for any drives and backlogs, every byte once and no drive later than necessary") {
    std::mt19937_64 random(4);
    for (int round = 0; round < 2000; ++round) {
        CAPTURE(round);
        std::vector<CopyState> copies(1 + random() % copies_max);
        for (CopyState& copy : copies) {
            copy = {1.0 + static_cast<double>(random() % 1000), random() % (1u << 22),
                    random() % 4 != 0};
        }
        copies[random() % copies.size()].available = true;
        std::vector<PlannedRead> reads;
        uint64_t total = 0;
        for (uint64_t i = 0; i < 1 + random() % 6; ++i) {
            const auto length = static_cast<uint32_t>(4096 * (1 + random() % 300));
            reads.push_back({(random() % 1000) * 4096, length, length, total});
            total += length;
        }
        const auto last = static_cast<uint32_t>(1 + random() % 4096);
        reads.back().needed = reads.back().length - 4096 + last;
        std::vector<uint64_t> shares(copies.size());
        const uint64_t least = (random() % 64) * 4096;
        share_bytes(total, 4096, least, copies, shares);
        REQUIRE(sum(shares) == total);
        std::vector<CopyRead> cuts;
        cut_reads(reads, shares, cuts);
        REQUIRE(cuts.size() <= reads.size() + copies.size() - 1);
        uint64_t to = 0;
        std::vector<uint64_t> given(copies.size());
        for (const CopyRead& cut : cuts) {
            REQUIRE(cut.read.to == to);
            REQUIRE(copies[cut.copy].available);
            to += cut.read.length;
            given[cut.copy] += cut.read.length;
        }
        REQUIRE(to == total);
        REQUIRE(given == shares);
        for (uint64_t part : shares)
            REQUIRE((part == 0 || part >= std::min(least, total) || sum(shares) == part));
    }
}

TEST_CASE("drives: shards spread over two are read at the sum of their speeds") {
    Drives d;
    d.spread();
    CHECK(d.rig->map.drives() == 2);
    d.pace({{200 * mb, 80e-6}});
    CHECK(d.read_all() > 0.97 * 400 * mb);
    CHECK(d.rig->ring->drive(0).bytes() > 0);
    CHECK(d.rig->ring->drive(0).bytes() == d.rig->ring->drive(1).bytes());
}

TEST_CASE("drives: a busy drive does not hold up another") {
    Drives d;
    d.spread();
    d.pace({{200 * mb, 0}});
    // Far more for the first drive than may be in flight, before one for the second.
    for (int32_t expert = 0; expert < 12; ++expert) d.rig->request({0, expert});
    d.rig->request({1, 0});
    Arrived arrived[1];
    int32_t before = 0;
    while (true) {
        auto count = d.rig->reader->collect(arrived, true);
        REQUIRE((count && *count == 1));
        if (arrived[0].key.layer == 1) break;
        ++before;
    }
    CHECK(before <= 2);
    d.rig->collect_all();
}

TEST_CASE("drives: a prefetch goes to an idle drive while another is busy") {
    Drives d;
    d.spread();
    d.pace({{200 * mb, 0}});
    for (int32_t expert = 0; expert < 12; ++expert) d.rig->request({0, expert});
    d.rig->request({0, 11}, Urgency::prefetch);  // its drive is busy until the end
    d.rig->request({1, 3}, Urgency::prefetch);
    std::vector<ExpertKey> order;
    for (const Arrived& arrived : d.rig->collect_all()) order.push_back(arrived.key);
    const auto at = std::find(order.begin(), order.end(), ExpertKey{1, 3}) - order.begin();
    CHECK(at <= 2);
    CHECK(order.back() == ExpertKey{0, 11});
}

TEST_CASE("mirror: two to one, read at the sum of their speeds") {
    Drives d;
    d.mirror({0, 1});
    d.pace({{200 * mb, 80e-6}, {100 * mb, 80e-6}});
    d.read_all();  // so that speeds are known
    const double a = static_cast<double>(d.rig->ring->drive(0).bytes());
    CHECK(d.read_all() > 0.95 * 300 * mb);
    CHECK(d.rig->ring->drive(0).rate() == doctest::Approx(200 * mb).epsilon(0.1));
    CHECK(d.rig->ring->drive(1).rate() == doctest::Approx(100 * mb).epsilon(0.1));
    CHECK(static_cast<double>(d.rig->ring->drive(0).bytes()) - a >
          0.6 * static_cast<double>(d.rig->map.expert_bytes({0, 0})) * 24);
    // A single expert is divided, too.
    const double start = d.clock->seconds();
    d.rig->request({0, 0});
    d.rig->collect_all();
    const double rate =
        static_cast<double>(d.rig->map.expert_bytes({0, 0})) / (d.clock->seconds() - start);
    CHECK(rate > 0.9 * 300 * mb);
}

TEST_CASE("mirror: with only some of the shards, the other drive is not idle") {
    Drives d;
    d.mirror({1});
    d.pace({{100 * mb, 0}, {100 * mb, 0}});
    d.read_all();
    CHECK(d.read_all() > 0.93 * 200 * mb);
}

TEST_CASE("mirror: a drive that slows down is read less, and reported in one line") {
    Drives d;
    d.mirror({0, 1});
    Warnings warnings;
    d.pace({{200 * mb, 0}, {200 * mb, 0}});
    for (int i = 0; i < 12; ++i) d.read_all();
    for (const DriveStats& drive : d.rig->ring->drive_stats()) {
        CHECK(drive.state == State::in_use);
        CHECK(drive.cause.empty());
    }
    d.paced->set_pace(1, {20 * mb, 0});
    for (int i = 0; i < 10; ++i) d.read_all();
    CHECK(d.read_all() > 0.9 * 220 * mb);
    const auto drives = d.rig->ring->drive_stats();
    CHECK(drives[0].state == State::in_use);
    CHECK(drives[1].state == State::slow);
    CHECK(drives[1].folder == d.second.path().string());
    CHECK(drives[1].cause.find("0.02 GB/s, was 0.20") != std::string::npos);
    CHECK(drives[1].bytes == d.rig->ring->drive(1).bytes());
    const auto lines = warnings.lines();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find(d.second.path().string()) != std::string::npos);
    CHECK(lines[0].find("slow") != std::string::npos);
}

TEST_CASE("mirror: a failed drive is no longer used, reported in one line, and nothing is lost") {
    for (const uint32_t drive : {0u, 1u}) {
        CAPTURE(drive);
        Drives d;
        d.mirror({0, 1});
        Warnings warnings;
        auto engine = std::make_unique<FailingDrive>(drive);
        FailingDrive& failing = *engine;
        d.rig->start(std::move(engine), 128);
        failing.fail_after(9);
        d.read_all();
        const uint64_t asked = failing.asked();
        CHECK(asked >= 10);
        d.read_all();
        CHECK(failing.asked() == asked);
        CHECK(d.rig->ring->drive_failed(drive));
        const auto drives = d.rig->ring->drive_stats();
        CHECK(drives[drive].state == State::left_out);
        CHECK(drives[drive].cause.find("EIO") != std::string::npos);
        CHECK(drives[1 - drive].state == State::in_use);
        // A read that failed on one drive counts for the drive that delivered it.
        const ExpertReader& reader = *d.rig->reader;
        CHECK(reader.bytes_from(drive) == drives[drive].bytes);
        CHECK(reader.bytes_from(0) + reader.bytes_from(1) == reader.bytes_read());
        const auto lines = warnings.lines();
        REQUIRE(lines.size() == 1);
        const auto& folder = drive == 0 ? d.first : d.second;
        CHECK(lines[0].find(folder.path().string()) != std::string::npos);
        CHECK(lines[0].find("EIO") != std::string::npos);
    }
}

TEST_CASE("mirror: if no copy is left, the expert fails with an error that names shard and drive") {
    Drives d;
    d.mirror({0});
    Warnings warnings;
    d.rig->start(RigEngine::simulated, 128, 1, {.bad_begin = 1u << 20, .bad_end = (1u << 20) + 1});
    size_t failed = 0;
    for (int32_t layer = 0; layer < 2; ++layer) {
        for (int32_t expert = 0; expert < 12; ++expert) d.rig->request({layer, expert});
    }
    for (const Arrived& arrived : d.rig->collect_all()) {
        if (!arrived.error) {
            CHECK(d.rig->holds(arrived.slot, arrived.key));
            continue;
        }
        ++failed;
        const std::string& message = arrived.error->message;
        CHECK(message.find("model-0000") != std::string::npos);
        CHECK(message.find("EIO") != std::string::npos);
    }
    CHECK(failed == 2);  // one expert of each layer has bytes there
    // Layer 0 was tried on both drives, and the last one is named; layer 1 has no copy.
    const auto lines = warnings.lines();
    CHECK(lines.size() == 1);
}

TEST_CASE(
    "mirror: a shard that differs is an error that names it, and so is a mirror without shards") {
    const ExpertShards shards;
    TempFolder model, mirror;
    shards.write(model.path(), {0, 1}, true);
    const auto refused = [&] {
        auto opened =
            Checkpoint::open({{model.path()}, "", Access::buffered, false, {mirror.path()}});
        REQUIRE_FALSE(opened);
        return opened.error().message;
    };
    const std::string name = ExpertShards::name(1, 2), good = shards.shard(1);
    CHECK(refused().find("none of the model's 2 shards") != std::string::npos);
    write_file(mirror / name, good.substr(0, good.size() - 1));
    CHECK(refused().find(name) != std::string::npos);
    std::string other = good;
    other[other.find("\"layers.1.ffn.experts.0") + 1] = 'x';
    write_file(mirror / name, other);
    const std::string message = refused();
    CHECK(message.find((mirror / name).string()) != std::string::npos);
    CHECK(message.find("headers differ") != std::string::npos);
    for (const size_t from_end : {size_t{1}, good.size() / 3}) {  // other tensors, the same header
        other = good;
        for (size_t i = good.size() - from_end; i < good.size() - from_end / 2; ++i) other[i] ^= 1;
        write_file(mirror / name, other);
        CHECK(refused().find("bytes differ starting at offset") != std::string::npos);
    }
    std::filesystem::remove(mirror / name);
    std::filesystem::create_symlink(model / name, mirror / name);
    const CheckpointOptions options{{model.path()}, "", Access::buffered, false, {mirror.path()}};
    auto opened = Checkpoint::open(options);
    REQUIRE(opened);
    CHECK(opened->notes().back().find("1 of them the model's own") != std::string::npos);
    std::filesystem::remove(mirror / name);
    write_file(mirror / name, good);
    opened = Checkpoint::open(options);
    REQUIRE(opened);
    CHECK(opened->notes().back().find("own") == std::string::npos);
    CHECK(opened->drives() == 2);
    CHECK(opened->copies()[0].empty());
    REQUIRE(opened->copies()[1].size() == 1);
    CHECK(opened->copies()[1][0].drive() == 1);
}

TEST_CASE(
    "mirror: reported as idle if it is on a drive that has its shards already, and only then") {
    const ExpertShards shards;
    TempFolder model, second, beside;
    TempFolder apart("sluice", "/dev/shm");  // memory: a device of its own
    shards.write(model.path(), {0, 1}, true);
    for (const TempFolder* folder : {&second, &beside, &apart}) {
        shards.write(folder->path(), {0, 1}, false);
    }
    const auto opened = [&](std::vector<std::string> mirrors) {
        auto checkpoint = Checkpoint::open(
            {{model.path().string()}, "", Access::buffered, false, std::move(mirrors)});
        REQUIRE(checkpoint);
        return std::pair(checkpoint->idle_mirrors(), checkpoint->notes().back());
    };
    const std::string here = beside.path().string(), there = apart.path().string();
    auto [idle, note] = opened({here});
    REQUIRE(idle.size() == 1);
    CHECK(idle[0].find(here + " is on a drive that already has these shards") != idle[0].npos);
    CHECK(note.ends_with("2 of 2 shards, 2 on a drive that has them already"));
    std::tie(idle, note) = opened({there});
    CHECK(idle.empty());
    CHECK(note.ends_with("2 of 2 shards"));
    std::tie(idle, note) = opened({there, second.path().string()});
    REQUIRE(idle.size() == 1);
    CHECK(idle[0].find(second.path().string()) != idle[0].npos);
}

TEST_CASE("mirror: the same bytes with any faults and any tuning") {
    for (uint64_t seed = 0; seed < 12; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        Drives d;
        d.shards.experts = 3;
        d.mirror(seed % 2 == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{1},
                 {static_cast<uint32_t>(1 + random() % 5), 4096,
                  static_cast<uint32_t>(1 + random() % 9)});
        d.rig->start(RigEngine::simulated, static_cast<uint32_t>(1 + random() % 70), seed,
                     {.short_read = 0.2, .again = 0.1, .reorder = 0.8, .late = 0.5});
        d.read_all();
        d.read_all();
    }
}
