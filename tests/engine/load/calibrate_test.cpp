#include "engine/load/calibrate.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <deque>

#include "engine/load/cache_file.h"
#include "engine/load/read_ring.h"
#include "engine/load/read_trial.h"
#include "io/clock.h"
#include "tests/support/expert_rig.h"
#include "tests/support/sim_clock.h"

using namespace sluice;

namespace {

using Time = PaceClock::Time;

// A drive in simulated time; each read may have a fixed cost, and few in flight may be slow.
class OddDrive final : public RingEngine {
 public:
    double bytes_s = 200e6, read_s = 0;
    double alone_s = 0;  // added to a read that starts with fewer than `company` in flight
    size_t company = 0;

    const char* name() const override { return "odd"; }
    Time now() const override { return now_; }
    Result<void> add_file(int) override { return {}; }
    Result<void> add_memory(std::span<std::byte>) override { return {}; }
    Result<void> submit(std::span<const Raw> reads) override {
        for (const Raw& read : reads) {
            const bool alone = queue_.size() + reads.size() < company;
            const double took = read_s + read.length / bytes_s + (alone ? alone_s : 0);
            free_at_ = std::max(free_at_, now_) +
                       std::chrono::nanoseconds(static_cast<int64_t>(took * 1e9));
            queue_.push_back({free_at_, {read.id, read.length}});
        }
        return {};
    }
    Result<size_t> reap(std::span<RawDone> out, bool wait) override {
        if (wait && queue_.front().due > now_) now_ = queue_.front().due;
        size_t count = 0;
        while (count < out.size() && !queue_.empty() && queue_.front().due <= now_) {
            out[count++] = queue_.front().done;
            queue_.pop_front();
        }
        return count;
    }

 private:
    struct Held {
        Time due;
        RawDone done;
    };
    Time now_{}, free_at_{};
    std::deque<Held> queue_;
};

struct Scene {
    TempFolder folder, cache;
    ExpertShards shards{.layers = 1, .experts = 6};
    std::unique_ptr<Rig> rig;
    PageBuffer slots;
    TrialPlan plan;
    EngineOptions options;
    std::string before;

    Scene() {
        const char* old = std::getenv("XDG_CACHE_HOME");
        before = old ? old : "";
        setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
        shards.write(folder.path(), {0}, true);
        rig = std::make_unique<Rig>(folder.path(), options.tuning, Access::buffered);
        slots = std::move(*PageBuffer::create(12 * rig->map.slot_bytes(), "a test"));
        plan.candidates = {
            {2, 64u << 10, 8}, {1, 64u << 10, 8}, {4, 64u << 10, 8}, {2, 64u << 10, 2}};
        plan.seconds = 0.2;
        plan.limit_s = 60;
    }
    ~Scene() { setenv("XDG_CACHE_HOME", before.c_str(), 1); }

    Result<TrialResult> run(std::unique_ptr<RingEngine> engine) {
        rig->start(std::move(engine), 64);
        return try_tunings(plan, rig->map, *rig->ring, slots.span());
    }
    Result<Calibration> calibrated(bool direct = true) {
        rig->reader.reset();
        return calibrate(rig->checkpoint, options, direct, 6, rig->map, *rig->ring, slots.span(),
                         nullptr);
    }
};

bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("calibration: the default stays unless another is faster by 3 %") {
    Scene s;
    auto engine = std::make_unique<OddDrive>();
    engine->read_s = 1e-6;
    const auto best = s.run(std::move(engine));
    REQUIRE(best);
    CHECK(best->tuning == s.plan.candidates[0]);
    CHECK(s.rig->map.tuning() == s.plan.candidates[0]);
    CHECK(best->bytes_s == doctest::Approx(200e6).epsilon(0.05));
}

TEST_CASE("calibration: fewer, larger reads where each read has a fixed cost") {
    Scene s;
    auto engine = std::make_unique<OddDrive>();
    engine->read_s = 0.002;
    const auto best = s.run(std::move(engine));
    REQUIRE(best);
    CHECK(best->tuning == s.plan.candidates[1]);
    CHECK(s.rig->map.tuning() == best->tuning);
}

TEST_CASE("calibration: more in flight where few reads in flight are slow") {
    Scene s;
    std::swap(s.plan.candidates[0], s.plan.candidates[3]);  // two in flight is the default
    auto engine = std::make_unique<OddDrive>();
    engine->alone_s = 0.004, engine->company = 9;
    const auto best = s.run(std::move(engine));
    REQUIRE(best);
    CHECK(best->tuning.in_flight_max == 8);
}

TEST_CASE("calibration: no time for a second round leaves the default, and its rate") {
    Scene s;
    s.plan.limit_s = 0.5;
    auto engine = std::make_unique<OddDrive>();
    engine->read_s = 0.002;
    const auto best = s.run(std::move(engine));
    REQUIRE(best);
    CHECK(best->tuning == s.plan.candidates[0]);
    CHECK(best->bytes_s > 0);
}

TEST_CASE("calibration: cancelling interrupts it") {
    Scene s;
    const std::atomic<bool> cancel = true;
    s.plan.cancel = &cancel;
    const auto best = s.run(std::make_unique<OddDrive>());
    REQUIRE_FALSE(best);
    CHECK(best.error().code == Code::interrupted);
}

TEST_CASE("calibration: when it is skipped, and the note that says so") {
    Scene s;
    s.rig->start(std::make_unique<OddDrive>(), 64);
    CHECK(has(s.calibrated()->note, "the model is small"));
    s.options.calibrate = Calibrate::off;
    CHECK(has(s.calibrated()->note, "--no-calibrate"));
    s.options.calibrate = Calibrate::automatic;
    s.options.tuning_given = true;
    CHECK(has(s.calibrated()->note, "as given"));
    s.options.calibrate = Calibrate::thorough;
    CHECK(s.calibrated().error().code == Code::usage);
    s.options.tuning_given = false;
    CHECK(s.calibrated(false).error().code == Code::usage);
}

TEST_CASE("calibration: measured once and remembered for this drive and I/O engine") {
    Scene s;
    std::vector<double> announced;
    s.options.measuring = [&](double seconds) { announced.push_back(seconds); };
    s.rig->start(std::make_unique<OddDrive>(), 64);
    REQUIRE(s.calibrated());
    CHECK(announced.empty());
    s.options.calibrate = Calibrate::thorough;
    CHECK_FALSE(s.calibrated(false));
    CHECK(announced.empty());  // refused without an announcement
    const auto start = s.rig->ring->now();
    const auto first = s.calibrated();
    REQUIRE(first);
    const double took = to_seconds(s.rig->ring->now() - start);
    REQUIRE(announced.size() == 1);
    CHECK(announced[0] == doctest::Approx(took).epsilon(0.2));
    CHECK(has(first->note, "measured by --tune"));
    CHECK(first->bytes_s > 100e6);
    CHECK(std::distance(std::filesystem::directory_iterator(s.cache / "sluice"), {}) == 1);
}

TEST_CASE("cache folder: a result is returned for its own identity only, and only if complete") {
    Scene s;
    CHECK_FALSE(recall("reads", "a drive"));
    CHECK(remember("reads", "a drive", "parts 2"));
    CHECK(recall("reads", "a drive") == "parts 2");
    CHECK_FALSE(recall("reads", "another drive"));
    CHECK_FALSE(recall("selftest", "a drive"));
    CHECK(remember("selftest", "a GPU", ""));
    CHECK(recall("selftest", "a GPU") == "");
    for (const auto& entry : std::filesystem::directory_iterator(s.cache / "sluice")) {
        const std::string text = read_file(entry.path());
        write_file(entry.path(), text.substr(0, text.size() - 1));
    }
    CHECK_FALSE(recall("reads", "a drive"));
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    CHECK_FALSE(remember("reads", "a drive", "parts 2"));
}

TEST_CASE("calibration: a remembered result is read back, any other text is rejected") {
    const Calibration kept{{4, 64u << 10, 4}, 2.5e9, ""};
    const std::string text = calibration_text(kept);
    const auto back = parse_calibration(text, {2, 64u << 10, 8});
    REQUIRE(back);
    CHECK(back->tuning == kept.tuning);
    CHECK(back->bytes_s == kept.bytes_s);
    for (const std::string& bad :
         {text + " ", text + "\nparts 2", text.substr(1), std::string(),
          std::string("parts 2 in flight 8 rate inf"), std::string("parts 2 in flight 8 rate nan"),
          std::string("parts 2 in flight 8 rate 0"), std::string("parts 2 in flight 8 rate -1"),
          std::string("parts 2 in flight 8 rate "), std::string("parts 0 in flight 8 rate 1"),
          std::string("parts 4294967297 in flight 8 rate 1"),
          std::string("parts 5 in flight 8 rate 1"), std::string("parts -1 in flight 8 rate 1"),
          std::string("parts 2 in flight 9 rate 1"), std::string("parts 2 in flight 0 rate 1")}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_calibration(bad, {2, 64u << 10, 8}));
    }
}

TEST_CASE("calibration: the note says 1 part, not 1 parts") {
    Scene s;
    s.options.tuning_given = true;
    s.options.tuning.parts = 1;
    s.rig->start(std::make_unique<OddDrive>(), 64);
    s.options.calibrate = Calibrate::off;
    CHECK(has(s.calibrated()->note, " 1 part, "));
}

TEST_CASE("cache folder: a pipe or a link in the place of a file is left alone") {
    Scene s;
    REQUIRE(remember("reads", "a drive", "parts 2"));
    std::filesystem::path file = std::filesystem::directory_iterator(s.cache / "sluice")->path();
    REQUIRE(::mkfifo((file.string() + ".new").c_str(), 0600) == 0);
    CHECK(remember("reads", "a drive", "parts 3"));  // does not hang
    CHECK(recall("reads", "a drive") == "parts 3");
    const std::string other = s.cache / "other";
    write_file(other, "mine");
    std::filesystem::remove(file.string() + ".new");
    std::filesystem::create_symlink(other, file.string() + ".new");
    std::filesystem::remove(file);
    std::filesystem::create_symlink(other, file);
    CHECK(remember("reads", "a drive", "parts 4"));
    CHECK(recall("reads", "a drive") == "parts 4");
    CHECK(read_file(other) == "mine");
    std::filesystem::remove(file);
    std::filesystem::create_directory(file);  // cannot be replaced: nothing is left behind
    write_file(file / "x", "");
    CHECK_FALSE(remember("reads", "a drive", "parts 5"));
    CHECK(std::distance(std::filesystem::directory_iterator(s.cache / "sluice"), {}) == 2);
}
