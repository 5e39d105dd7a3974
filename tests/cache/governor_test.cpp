// The governor with the cache, the reader and drives in simulated time, which is exact: one percent
// is one percent.
#include <doctest/doctest.h>

#include <optional>

#include "cache/prefetch_governor.h"
#include "tests/cache/rig.h"
#include "tests/support/timed_drive.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// All times in units of the time to read one expert.
struct World {
    const char* name = "";
    double attention = 0.5;  // of a layer
    double expert = 0.1;     // compute
    double guess = 0.01;     // making guesses, per layer
    double stolen = 0;       // compute time lost per prefetch
    double accuracy = 0.7;   // of the predictor
    double skew = 0;         // share of choices that repeat the last token's
    uint32_t cache_slots = 0;
    size_t drives = 1;    // with the speed of one in sum
    bool spread = false;  // two drives instead, each as fast as one, with every second layer
    double jitter = 0;    // of compute
};

class Machine {
 public:
    // `guesses`: fixed, or governed.
    Machine(const World& world, std::optional<uint32_t> guesses, uint64_t seed)
        : world_(world),
          fixed_(guesses),
          model_(world.spread ? Model::large_spread() : Model::large()),
          governor_(layers, PrefetchGovernor::guesses_max,
                    32768.0 / static_cast<double>(model_.map->slot_bytes())),
          routes_(seed),
          noise_(seed + 1),
          last_(layers) {
        const double bytes = static_cast<double>(model_.map->slot_bytes());
        std::vector<double> rates(world.drives, bytes / static_cast<double>(world.drives));
        if (world.spread) rates = {bytes, bytes};
        auto drive = std::make_unique<TimedDrive>(clock_, std::move(rates), 0.01);
        drive_ = drive.get();
        rig_.emplace(std::move(drive),
                     ExpertCacheOptions{
                         .cache_slots = world.cache_slots, .transit_slots = 14, .poison = false},
                     64, model_);
        draw();
    }

    // The seconds that this many tokens took.
    double run(int tokens) {
        const double begin = clock_.now;
        for (int token = 0; token < tokens; ++token) step();
        return clock_.now - begin;
    }
    const PrefetchGovernor& governor() const { return governor_; }
    const CacheStats& stats() const { return rig_->cache->stats(); }

 private:
    template <class Done>
    static void require(const Done& done) {
        if (!done) FAIL(done.error().message);
    }
    static bool chance(std::mt19937_64& random, double share) {
        return std::uniform_real_distribution<>()(random) < share;
    }
    void compute(double seconds) {
        std::normal_distribution<> spread(1, world_.jitter);
        clock_.now += world_.jitter > 0 ? seconds * std::max(0.5, spread(noise_)) : seconds;
    }
    // The routes of a token; independent of what the cache does.
    void draw() {
        for (int32_t layer = 0; layer < layers; ++layer) {
            std::vector<int32_t> chosen;
            const std::vector<int32_t> before = last_[static_cast<size_t>(layer)];
            while (chosen.size() < top_k) {
                auto expert = static_cast<int32_t>(routes_() % experts);
                const size_t old = routes_() % top_k;
                if (chance(routes_, world_.skew) && !before.empty()) expert = before[old];
                if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) {
                    chosen.push_back(expert);
                }
            }
            last_[static_cast<size_t>(layer)] = chosen;
        }
    }
    std::vector<int32_t> guesses_of(int32_t layer) {
        std::vector<int32_t> guesses = last_[static_cast<size_t>(layer)];
        for (int32_t& guess : guesses) {
            if (!chance(noise_, world_.accuracy)) {
                do guess = static_cast<int32_t>(noise_() % experts);
                while (std::find(last_[static_cast<size_t>(layer)].begin(),
                                 last_[static_cast<size_t>(layer)].end(),
                                 guess) != last_[static_cast<size_t>(layer)].end());
            }
        }
        return guesses;
    }
    void judge(int32_t layer) {
        const auto& chosen = last_[static_cast<size_t>(layer)];
        uint32_t right = 0;
        for (size_t i = 0; i < guessed_.size(); ++i) {
            const bool found = std::find(chosen.begin(), chosen.end(), guessed_[i]) != chosen.end();
            right |= static_cast<uint32_t>(found) << i;
        }
        if (!guessed_.empty()) {
            governor_.observed(layer, static_cast<uint32_t>(guessed_.size()), right);
        }
        guessed_.clear();
    }
    void prefetch(int32_t layer) {
        const uint32_t count = fixed_ ? *fixed_ : governor_.guesses_for(layer);
        if (fixed_ ? count == 0 : !governor_.wants_guesses(layer)) return;
        compute(world_.guess);
        const std::vector<int32_t> guesses = guesses_of(layer);
        for (int32_t guess : guesses) {
            if (guessed_.size() == PrefetchGovernor::guesses_max) break;
            if (!rig_->cache->resident({layer, guess})) guessed_.push_back(guess);
        }
        const uint64_t started = stats().prefetch_started;
        rig_->cache->prefetch(layer, guesses, count);
        stolen_ += static_cast<double>(stats().prefetch_started - started);
    }
    void layer_step(int32_t layer) {
        compute(world_.attention);
        require(rig_->cache->pump());
        judge(layer);
        const auto& chosen = last_[static_cast<size_t>(layer)];
        require(rig_->cache->demand(layer, chosen, DemandKind::decode));
        if (layer + 1 < layers) prefetch(layer + 1);
        const uint64_t started = stats().prefetch_started;
        for (size_t i = 0; i < chosen.size(); ++i) {
            require(rig_->cache->pump());
            auto handle = rig_->cache->next();
            require(handle);
            compute(world_.expert);
            rig_->cache->release(*handle);
        }
        compute(world_.stolen * static_cast<double>(stats().prefetch_started - started));
    }
    // Without `spread` the reader sees all drives as one.
    double idle_s(double seconds, double busy, std::vector<double> before) const {
        if (!world_.spread) return idle_for_guesses(seconds, {&busy, 1}, 1);
        for (size_t drive = 0; drive < before.size(); ++drive) {
            before[drive] = drive_->busy_each_s()[drive] - before[drive];
        }
        return idle_for_guesses(seconds, before, model_.map->drives_per_layer());
    }
    void step() {
        const double begin = clock_.now, busy = drive_->busy_s(), waited = drive_->waited_s();
        const std::vector<double> each = drive_->busy_each_s();
        const CacheStats before = stats();
        for (int32_t layer = 0; layer < layers; ++layer) layer_step(layer);
        rig_->cache->token_passed();
        const CacheStats& after = stats();
        const double seconds = clock_.now - begin;
        governor_.token_passed({.seconds = seconds,
                                .wait_s = drive_->waited_s() - waited,
                                .idle_s = idle_s(seconds, drive_->busy_s() - busy, each),
                                .read_s = drive_->busy_s() - busy,
                                .misses = after.misses - before.misses + after.prefetch_used -
                                          before.prefetch_used -
                                          (after.late_prefetches - before.late_prefetches)});
        draw();
    }

    World world_;
    std::optional<uint32_t> fixed_;
    const Model& model_;
    VirtualClock clock_;
    TimedDrive* drive_;
    std::optional<Rig> rig_;
    PrefetchGovernor governor_;
    std::mt19937_64 routes_, noise_;
    std::vector<std::vector<int32_t>> last_;  // what each layer chooses
    std::vector<int32_t> guessed_;
    double stolen_ = 0;
};

std::vector<World> worlds() {
    std::vector<World> all;
    const std::pair<const char*, std::pair<double, double>> speeds[] = {
        {"fast compute", {0.02, 0.005}},
        {"balanced", {0.6, 0.1}},
        {"two reads idle", {2.2, 0.1}},
        {"slow compute", {4.0, 1.2}}};
    for (const auto& [name, speed] : speeds) {
        for (double accuracy : {0.0, 0.3, 0.7, 1.0}) {
            for (uint32_t slots : {0u, 48u, 200u, 512u}) {
                for (double skew : {0.0, 0.6}) {
                    for (size_t drives : {1u, 2u}) {
                        World world;
                        world.name = name;
                        world.attention = speed.first;
                        world.expert = speed.second;
                        world.accuracy = accuracy;
                        world.cache_slots = slots;
                        world.skew = skew;
                        world.drives = drives;
                        all.push_back(world);
                    }
                    if (skew > 0) continue;
                    World world = all.back();
                    world.drives = 2;
                    world.spread = true;
                    all.push_back(world);
                }
            }
        }
    }
    return all;
}

void never_slower(const World& world, uint64_t seed) {
    Machine off(world, 0u, seed), governed(world, std::nullopt, seed);
    double without = 0, with = 0;
    for (int tokens : {64, 136, 200}) {
        without += off.run(tokens);
        with += governed.run(tokens);
        CAPTURE(world.name);
        CAPTURE(world.accuracy);
        CAPTURE(world.cache_slots);
        CAPTURE(world.skew);
        CAPTURE(world.drives);
        CAPTURE(world.spread);
        CAPTURE(world.stolen);
        CAPTURE(world.jitter);
        CAPTURE(tokens);
        CAPTURE(governed.governor().off());
        CAPTURE(governed.stats().prefetch_started);
        CHECK(with / without <= 1.01);
    }
}

}  // namespace

TEST_CASE("governed prefetching is never more than one percent slower than none") {
    uint64_t seed = 1;
    for (const World& world : worlds()) never_slower(world, ++seed);
}

TEST_CASE("nor if every prefetch costs time in a way that no model predicts") {
    uint64_t seed = 1;
    for (double stolen : {0.2, 0.6, 1.5}) {
        for (double jitter : {0.0, 0.05, 0.2}) {
            for (uint32_t slots : {0u, 48u, 200u}) {
                World world;
                world.name = "stolen";
                world.stolen = stolen;
                world.jitter = jitter;
                world.cache_slots = slots;
                world.skew = 0.3;
                never_slower(world, ++seed);
            }
        }
    }
}

namespace {

void gains_most(const World& world) {
    const int tokens = 400;
    const double none = Machine(world, 0u, 3).run(tokens);
    double best = none;
    for (uint32_t guesses = 1; guesses <= 4; ++guesses) {
        best = std::min(best, Machine(world, guesses, 3).run(tokens));
    }
    const double governed = Machine(world, std::nullopt, 3).run(tokens);
    CAPTURE(world.attention);
    CAPTURE(world.accuracy);
    CAPTURE(world.cache_slots);
    CAPTURE(none);
    CAPTURE(best);
    CAPTURE(governed);
    CHECK(none - governed >= 0.85 * (none - best) - 0.01 * none);
    printf("%d att %.2f acc %.1f slots %u: best %.3f governed %.3f share %.2f\n", world.spread,
           world.attention, world.accuracy, world.cache_slots, none / best, none / governed,
           (none - governed) / (none - best));
}

}  // namespace

TEST_CASE("if prefetching gains, the governor gains most of what the best fixed number does") {
    for (double accuracy : {0.7, 1.0}) {
        for (uint32_t slots : {0u, 200u}) {
            World world;
            world.accuracy = accuracy;
            world.cache_slots = slots;
            for (double attention : {0.6, 1.2, 2.2}) {
                world.attention = attention;
                gains_most(world);
            }
            world.spread = true;
            for (double attention : {0.05, 0.6, 2.2}) {
                world.attention = attention;
                gains_most(world);
            }
        }
    }
}

TEST_CASE("the idle time for prefetching is that of the next layer's drives") {
    const std::vector<double> busy = {0.5, 0.5};
    CHECK(idle_for_guesses(1, busy, 2) == 0.5);  // both hold every layer
    CHECK(idle_for_guesses(1, busy, 1) == 1);    // one reads while the other's layer is computed
    CHECK(idle_for_guesses(1, std::vector<double>{0.8, 0.8}, 1) == doctest::Approx(0.4));
    CHECK(idle_for_guesses(1, std::vector<double>{0.1, 0.1}, 1) == 1);
    CHECK(idle_for_guesses(1, std::vector<double>{1.2}, 1) == 0);
    CHECK(Model::large().map->drives_per_layer() == 1);
    CHECK(Model::large_spread().map->drives_per_layer() == 1);
    CHECK(Model::large_spread().map->drives() == 2);
}

TEST_CASE("a wrong guess costs what is in flight when the demand comes, a right one gains") {
    for (double attention : {0.1, 0.3, 0.6, 1.5}) {
        for (uint32_t guesses : {1u, 4u}) {
            CAPTURE(attention);
            CAPTURE(guesses);
            World world;
            world.attention = attention;
            world.expert = 0.005;
            world.guess = 0;
            world.accuracy = 0;
            const int tokens = 100;
            const double none = Machine(world, 0u, 3).run(tokens);
            // Per layer: a quarter of the time before the demand, and one piece; never a whole
            // read.
            const double most = (prefetch_margin * attention + 0.1) / (top_k + attention);
            CHECK(Machine(world, guesses, 3).run(tokens) / none < 1 + most);
            world.accuracy = 1;
            CHECK(Machine(world, guesses, 3).run(tokens) / none <
                  1 - 0.7 * std::min(attention, 1.0) / (top_k + attention));
        }
    }
}
