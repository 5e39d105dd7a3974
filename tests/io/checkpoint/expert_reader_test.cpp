#include "io/checkpoint/expert_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/expert_rig.h"
#include "tests/support/model_copy.h"
#include "tests/support/mutate.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

using namespace sluice;
using namespace sluice::model_copy;

namespace {

// Every expert of a model once, in random order.
void read_everything(Rig& rig, uint64_t seed) {
    std::vector<ExpertKey> keys;
    for (int32_t layer = 0; layer < rig.map.layers(); ++layer) {
        for (int32_t expert = 0; expert < rig.map.experts(); ++expert)
            keys.push_back({layer, expert});
    }
    std::mt19937_64 random(seed);
    std::shuffle(keys.begin(), keys.end(), random);
    for (const ExpertKey key : keys) rig.request(key);
    std::set<ExpertKey> seen;
    for (const Arrived& arrived : rig.collect_all()) {
        if (arrived.error) MESSAGE(arrived.error->message);
        REQUIRE(!arrived.error);
        CHECK(arrived.urgency == Urgency::demand);
        REQUIRE(seen.insert(arrived.key).second);
        REQUIRE(rig.holds(arrived.slot, arrived.key));
    }
    CHECK(seen.size() == keys.size());
}

// Offsets in the order in which they were read.
std::vector<uint64_t> asked(const Rig& rig) {
    std::vector<uint64_t> offsets;
    for (const RingEngine::Raw& raw : rig.sim->submitted()) offsets.push_back(raw.offset);
    return offsets;
}

std::vector<uint64_t> planned(const Rig& rig, const std::vector<ExpertKey>& keys) {
    std::vector<uint64_t> offsets;
    for (const ExpertKey key : keys) {
        for (const PlannedRead& read : rig.map.plan(key).reads) offsets.push_back(read.offset);
    }
    return offsets;
}

}  // namespace

TEST_CASE(
    "experts: every byte equals a plain read, on every engine and with both kinds of access") {
    for (const fs::path& folder : {tiny, random_a}) {
        for (const RigEngine engine :
             {RigEngine::uring, RigEngine::threads, RigEngine::simulated}) {
            for (const Access access : {Access::direct, Access::buffered}) {
                CAPTURE(folder.string());
                CAPTURE(static_cast<int>(engine));
                CAPTURE(static_cast<int>(access));
                Rig rig(folder, {}, access);
                rig.start(engine, 16);
                read_everything(rig, 1);
            }
        }
    }
}

TEST_CASE("experts: any tuning and depth gives the same bytes") {
    for (const ExpertTuning tuning :
         {ExpertTuning{1, 4096, 1}, ExpertTuning{3, 4096, 2}, ExpertTuning{64, 512, 9}}) {
        for (const uint32_t depth : {1u, 2u, 64u}) {
            CAPTURE(tuning.parts);
            CAPTURE(depth);
            Rig rig(random_a, tuning);
            rig.start(RigEngine::threads, depth);
            read_everything(rig, depth);
        }
    }
}

TEST_CASE("experts: two ranges if the tensors were written next to each other") {
    Rig rig(tiny, {1, 1 << 20, 4});
    for (int32_t expert = 0; expert < rig.map.experts(); ++expert) {
        CHECK(rig.map.plan({3, expert}).reads.size() == 2);
        CHECK(rig.map.expert_bytes({3, expert}) == 3 * 8192 + 3 * 512);
    }
    CHECK(rig.map.slot_bytes() % page_size == 0);
    CHECK(rig.map.slot_bytes() <= 3 * 8192 + 3 * 512 + 4 * 4096 + 4096);
    CHECK(!rig.map.has({8, 0}));
    CHECK(!rig.map.has({0, 64}));
    CHECK(!rig.map.has({-1, 0}));
}

TEST_CASE("experts: each arrives exactly once, however the drive behaves") {
    Rig whole(random_a, {3, 4096, 3}), pieces(random_a, {3, 4096, 3, 4096});
    for (uint64_t seed = 0; seed < 300; ++seed) {
        CAPTURE(seed);
        Rig& rig = seed % 2 == 0 ? whole : pieces;
        std::mt19937_64 random(seed);
        SimFaults faults{.short_read = 0.2, .again = 0.1, .reorder = 0.8, .late = 0.5};
        if (seed % 3 == 0) faults.eio = 0.05;
        rig.slots.clear();
        rig.start(RigEngine::simulated, 1 + static_cast<uint32_t>(random() % 12), seed, faults);
        std::map<std::byte*, ExpertKey> open;
        size_t failed = 0, cancelled = 0;
        const auto check = [&](Arrived& arrived) {
            const auto at = open.find(arrived.slot);
            REQUIRE(at != open.end());
            REQUIRE(at->second == arrived.key);
            open.erase(at);
            if (!arrived.error) {
                REQUIRE(rig.holds(arrived.slot, arrived.key));
            } else {
                (arrived.error->code == Code::interrupted ? cancelled : failed)++;
            }
        };
        for (int step = 0; step < 60; ++step) {
            const uint64_t dice = random() % 10;
            const ExpertKey key{static_cast<int32_t>(random() % rig.map.layers()),
                                static_cast<int32_t>(random() % rig.map.experts())};
            if (dice < 4) {
                std::byte* slot = rig.slot();
                open[slot] = key;
                rig.reader->request(key, slot, dice < 2 ? Urgency::demand : Urgency::prefetch);
            } else if (dice < 5) {
                rig.reader->promote(key);
            } else if (dice < 6) {
                rig.reader->cancel(open.empty() || random() % 4 == 0 ? key : open.begin()->second);
            } else if (dice < 8) {
                if (random() % 4 == 0) rig.reader->expect_demand_after(random() % 3 * 1e-4);
                REQUIRE(rig.reader->pump());
            } else {
                std::array<Arrived, 2> some;
                const auto count = rig.reader->collect(some, random() % 2 == 0);
                REQUIRE(count);
                for (size_t i = 0; i < *count; ++i) check(some[i]);
            }
            REQUIRE(rig.reader->pending() == open.size());
            REQUIRE(rig.reader->pending_demand() <= rig.reader->pending());
        }
        for (Arrived& arrived : rig.collect_all()) check(arrived);
        CHECK(open.empty());
        if (faults.eio == 0) CHECK(failed == 0);
    }
}

TEST_CASE("experts: demand starts in the order requested, a few at a time") {
    Rig rig(tiny, {1, 1 << 20, 2});
    rig.start(RigEngine::simulated, 64);
    const std::vector<ExpertKey> keys{{5, 9}, {0, 63}, {7, 1}, {2, 2}};
    for (const ExpertKey key : keys) rig.request(key);
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig) == planned(rig, {keys[0], keys[1]}));
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig).size() == 4);
    CHECK(rig.reader->pending_demand() == 4);
    const auto arrived = rig.collect_all();
    REQUIRE(arrived.size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(arrived[i].key == keys[i]);
    CHECK(asked(rig) == planned(rig, keys));
    uint64_t bytes = 0;
    for (const ExpertKey key : keys) {
        for (const PlannedRead& read : rig.map.plan(key).reads) bytes += read.needed;
    }
    CHECK(rig.reader->bytes_read() == bytes);
}

TEST_CASE("experts: a prefetch starts only if no demand is pending, one at a time") {
    Rig rig(tiny, {1, 1 << 20, 2});
    rig.start(RigEngine::simulated, 64);
    rig.request({1, 1}, Urgency::prefetch);
    rig.request({1, 2}, Urgency::prefetch);
    rig.request({0, 0});
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig) == planned(rig, {{0, 0}}));
    std::array<Arrived, 8> out;
    auto count = rig.reader->collect(out, true);
    REQUIRE(count);
    REQUIRE(*count == 1);
    CHECK(out[0].key == ExpertKey{0, 0});
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig) == planned(rig, {{0, 0}, {1, 1}}));  // not {1, 2} yet
    CHECK(rig.reader->pending_demand() == 0);
    CHECK(rig.reader->pending() == 2);
    // A demand now does not wait for the prefetch, and the next prefetch waits for it.
    rig.request({0, 1});
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig) == planned(rig, {{0, 0}, {1, 1}, {0, 1}}));
    const auto rest = rig.collect_all();
    REQUIRE(rest.size() == 3);
    CHECK(rest[2].key == ExpertKey{1, 2});
    CHECK(rest[2].urgency == Urgency::prefetch);
}

TEST_CASE("experts: the parts of a prefetch that are not in flight yet give way to demand") {
    Rig rig(tiny, {4, 4096, 1});
    rig.start(RigEngine::simulated, 2);
    rig.request({1, 1}, Urgency::prefetch);
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig).size() == 2);  // the ring is full
    rig.request({0, 0});
    rig.request({0, 1});
    const auto all = rig.collect_all();
    REQUIRE(all.size() == 3);
    CHECK(all[2].key == ExpertKey{1, 1});
    for (const Arrived& arrived : all) CHECK(rig.holds(arrived.slot, arrived.key));
    auto want = planned(rig, {{1, 1}, {0, 0}, {0, 1}});
    const auto rest = static_cast<std::ptrdiff_t>(rig.map.plan({1, 1}).reads.size());
    REQUIRE(rest > 2);
    std::rotate(want.begin() + 2, want.begin() + rest, want.end());
    CHECK(asked(rig) == want);
}

TEST_CASE("experts: an overtaken prefetch continues only after the last byte of demand") {
    Rig rig(tiny, {4, 4096, 1});
    rig.start(RigEngine::simulated, 2, 1, {.late = 1.0});  // one completion per reap
    rig.request({1, 1}, Urgency::prefetch);
    REQUIRE(rig.reader->pump());
    rig.request({0, 0});
    const size_t before_rest = 2 + rig.map.plan({0, 0}).reads.size();
    for (size_t completions = 0; completions < before_rest; ++completions) {
        CHECK(asked(rig).size() <= before_rest);
        REQUIRE(*rig.ring->reap(true) == 1);
    }
    CHECK(asked(rig).size() > before_rest);
    CHECK(rig.collect_all().size() == 2);
}

TEST_CASE("experts: promote moves a waiting prefetch before the others and counts as demand") {
    Rig rig(tiny, {1, 1 << 20, 1});
    rig.start(RigEngine::simulated, 64);
    rig.request({0, 0});
    for (const int32_t expert : {1, 2, 3}) rig.request({1, expert}, Urgency::prefetch);
    rig.reader->promote({1, 3});
    rig.reader->promote({6, 6});  // unknown: no effect
    CHECK(rig.reader->pending_demand() == 2);
    const auto all = rig.collect_all();
    REQUIRE(all.size() == 4);
    CHECK(all[0].key == ExpertKey{0, 0});
    CHECK(all[1].key == ExpertKey{1, 3});
    CHECK(all[1].urgency == Urgency::demand);
    CHECK(all[2].key == ExpertKey{1, 1});
    CHECK(all[2].urgency == Urgency::prefetch);
}

TEST_CASE("experts: promoting a prefetch in flight makes it demand") {
    Rig rig(tiny, {1, 1 << 20, 1});
    rig.start(RigEngine::simulated, 64);
    rig.request({1, 1}, Urgency::prefetch);
    REQUIRE(rig.reader->pump());
    CHECK(rig.reader->pending_demand() == 0);
    rig.reader->promote({1, 1});
    CHECK(rig.reader->pending_demand() == 1);
    rig.request({0, 0});
    REQUIRE(rig.reader->pump());
    CHECK(asked(rig) == planned(rig, {{1, 1}}));  // it takes the only place
    const auto all = rig.collect_all();
    REQUIRE(all.size() == 2);
    CHECK(all[0].urgency == Urgency::demand);
}

TEST_CASE("experts: a cancelled prefetch is reported and not read, unless all of it is in flight") {
    Rig rig(tiny, {1, 1 << 20, 1});
    rig.start(RigEngine::simulated, 64);
    for (const int32_t expert : {1, 2, 3, 4}) rig.request({1, expert}, Urgency::prefetch);
    rig.request({0, 0});
    rig.reader->cancel({0, 0});  // demand: no effect
    rig.reader->cancel({1, 3});
    rig.reader->cancel({6, 6});  // unknown: no effect
    std::map<int32_t, bool> read;
    for (const Arrived& arrived : rig.collect_all()) {
        read[arrived.key.expert] = !arrived.error;
        if (arrived.error) CHECK(arrived.error->code == Code::interrupted);
    }
    CHECK(read == std::map<int32_t, bool>{{0, true}, {1, true}, {2, true}, {3, false}, {4, true}});
    CHECK(asked(rig) == planned(rig, {{0, 0}, {1, 1}, {1, 2}, {1, 4}}));
    rig.request({1, 5}, Urgency::prefetch);
    REQUIRE(rig.reader->pump());
    rig.reader->cancel({1, 5});
    const auto last = rig.collect_all();
    REQUIRE(last.size() == 1);
    CHECK(!last[0].error);
    CHECK(rig.holds(last[0].slot, {1, 5}));
}

TEST_CASE(
    "experts: the rest of a prefetch cancelled in flight is not read, unless it is promoted") {
    for (const bool wanted : {false, true}) {
        CAPTURE(wanted);
        Rig rig(tiny, {1, 1 << 20, 1, 4096});
        rig.start(RigEngine::simulated, 2);
        rig.request({1, 1}, Urgency::prefetch);
        REQUIRE(rig.reader->pump());
        REQUIRE(rig.sim->submitted().size() == 2);  // the ring is full
        rig.reader->cancel({1, 1});
        CHECK(rig.reader->pending() == 1);  // the slot is still written to
        if (wanted) rig.reader->promote({1, 1});
        const auto all = rig.collect_all();
        REQUIRE(all.size() == 1);
        CHECK(all[0].error.has_value() != wanted);
        if (wanted) {
            CHECK(all[0].urgency == Urgency::demand);
            CHECK(rig.holds(all[0].slot, {1, 1}));
        } else {
            CHECK(all[0].error->code == Code::interrupted);
            const auto& read = rig.sim->submitted();
            CHECK(all[0].bytes == read[0].length + read[1].length);
            CHECK(rig.sim->submitted().size() == 2);
        }
    }
}

TEST_CASE("experts: a prefetch is read in pieces of any size, with the same bytes") {
    for (const uint64_t piece : {1u, 4096u, 5000u, 8192u, 1u << 30}) {
        CAPTURE(piece);
        Rig rig(random_a, {2, 4096, 2, piece});
        rig.start(RigEngine::simulated, 16);
        for (int32_t expert = 0; expert < 8; ++expert) rig.request({1, expert}, Urgency::prefetch);
        for (const Arrived& arrived : rig.collect_all()) {
            REQUIRE(!arrived.error);
            CHECK(rig.holds(arrived.slot, arrived.key));
        }
        for (const RingEngine::Raw& raw : rig.sim->submitted()) {
            CHECK(raw.length <= std::max<uint64_t>(piece, 4096));
        }
    }
}

TEST_CASE("experts: a failed read names shard, layer, expert and offset, and the others arrive") {
    Rig rig(tiny, {4, 4096, 4});
    const ByteRange bad = rig.map.range({3, 7}, w2_codes);
    rig.start(RigEngine::simulated, 8, 1,
              {.bad_begin = bad.offset + 100, .bad_end = bad.offset + 101});
    rig.request({3, 7});
    rig.request({4, 8});
    size_t failed = 0;
    for (const Arrived& arrived : rig.collect_all()) {
        if (arrived.key == ExpertKey{4, 8}) {
            CHECK(!arrived.error);
            continue;
        }
        ++failed;
        REQUIRE(arrived.error);
        CHECK(arrived.error->code == Code::io);
        says(arrived.error->message,
             {"layer 3, expert 7: ", "model-00005-of-00012.safetensors", "offset"});
    }
    CHECK(failed == 1);
    CHECK(rig.reader->pending() == 0);
}

TEST_CASE("experts: a shard truncated while open is an error, not stale bytes") {
    Copy copy;
    copy.damage(shard_name(5), read_file(tiny / shard_name(5)));
    Rig rig(copy.folder, {});
    rig.start(RigEngine::threads, 8);
    const ByteRange range = rig.map.range({3, 7}, w2_codes);
    fs::resize_file(copy / shard_name(5), range.offset + 10);
    rig.request({3, 7});
    const auto all = rig.collect_all();
    REQUIRE(all.size() == 1);
    REQUIRE(all[0].error);
    says(all[0].error->message, {"layer 3, expert 7", shard_name(5)});
}

TEST_CASE("experts: headers of any length, so that data begin at any offset") {
    for (size_t k = 1; k <= 7; ++k) {
        CAPTURE(k);
        Copy copy;
        for (const int number : {2, 3, 4, 5, 6, 7, 8, 9}) {
            copy.damage(shard_name(number),
                        mutate::unpadded(read_file(tiny / shard_name(number)), k));
        }
        Rig rig(copy.folder, {2, 4096, 4});
        rig.start(RigEngine::threads, 16);
        read_everything(rig, k);
    }
}

TEST_CASE("experts: scattered tensors in an unusual order") {
    for (const uint64_t seed : {1, 2, 3}) {
        CAPTURE(seed);
        Copy copy;
        for (const int number : {2, 3, 4, 5, 6, 7, 8, 9}) {
            copy.damage(
                shard_name(number),
                mutate::reorder(read_file(tiny / shard_name(number)), [&](const std::string& name) {
                    return std::hash<std::string>()(name) * (2 * seed + 1);
                }));
        }
        Rig rig(copy.folder, {2, 4096, 4});
        rig.start(RigEngine::threads, 16);
        CHECK(rig.map.plan({0, 0}).reads.size() > 2);
        read_everything(rig, seed);
    }
}

TEST_CASE("experts: tensors in file order w3, w1, w2 beside their scales are one read") {
    Copy copy;
    for (const int number : {2, 3, 4, 5, 6, 7, 8, 9}) {
        copy.damage(shard_name(number), mutate::reorder(read_file(tiny / shard_name(number)),
                                                        [](const std::string& name) {
                                                            return name.substr(0, name.rfind('w'));
                                                        }));
    }
    Rig rig(copy.folder, {1, 1 << 20, 4});
    rig.start(RigEngine::threads, 16);
    CHECK(rig.map.plan({2, 5}).reads.size() == 1);
    read_everything(rig, 1);
}

TEST_CASE("experts: an expert that ends at the end of the file, or one byte before") {
    for (const bool before : {false, true}) {
        CAPTURE(before);
        Copy copy;
        std::string bytes = mutate::unpadded(mutate::reorder(read_file(tiny / shard_name(5)),
                                                             [](const std::string& name) {
                                                                 return name.find("experts.40.") !=
                                                                        std::string::npos;
                                                             }),
                                             5);
        if (before) {
            Container container = Container::parse(bytes);
            container.items.push_back(
                {"layers.3.last", "U8", {1}, container.data.size(), container.data.size() + 1});
            container.data += 'x';
            bytes = padded(container);
            copy.edit_index("\"norm.weight\"",
                            "\"layers.3.last\": \"" + shard_name(5) + "\", \"norm.weight\"");
        }
        copy.damage(shard_name(5), bytes);
        for (const RigEngine engine :
             {RigEngine::threads, RigEngine::uring, RigEngine::simulated}) {
            Rig rig(copy.folder, {4, 4096, 2});
            rig.start(engine, 4, 9, {.short_read = 0.3, .reorder = 0.5});
            const ByteRange last = rig.map.range({3, 40}, w3_codes);
            CHECK(last.offset + last.length + (before ? 1 : 0) == bytes.size());
            rig.request({3, 40});
            rig.request({3, 41});
            for (const Arrived& arrived : rig.collect_all()) {
                REQUIRE(!arrived.error);
                CHECK(rig.holds(arrived.slot, arrived.key));
            }
        }
    }
}

TEST_CASE("experts: tensors in two shards are refused by name") {
    auto opened = open_folder(tiny);
    REQUIRE(opened);
    ExpertMap map(8, 64, opened->shards(), {});
    auto parts = parts_of(*opened, {0, 0});
    parts[w3_scales] = opened->find("layers.1.ffn.experts.0.w3.scale");
    const auto added = map.add({0, 0}, parts);
    REQUIRE(!added);
    CHECK(added.error().code == Code::unsupported);
    says(added.error().message,
         {"layer 0, expert 0", "layers.1.ffn.experts.0.w3.scale", shard_name(2), shard_name(3)});
    CHECK(!map.has({0, 0}));
}

TEST_CASE("experts: destroying a reader leaves no read in flight") {
    Rig rig(tiny, {4, 4096, 4});
    rig.start(RigEngine::threads, 8);
    for (int32_t expert = 0; expert < 20; ++expert) rig.request({2, expert});
    REQUIRE(rig.reader->pump());
    CHECK(rig.ring->in_flight() > 0);
    rig.reader.reset();
    CHECK(rig.ring->in_flight() == 0);
}

TEST_CASE("experts: collect without requests, and without waiting") {
    Rig rig(tiny, {});
    rig.start(RigEngine::simulated, 8, 1, {.late = 1.0});
    std::array<Arrived, 4> out;
    CHECK(*rig.reader->collect(out, true) == 0);
    rig.request({0, 0});
    CHECK(*rig.reader->collect(out, false) == 0);  // nothing has arrived
    CHECK(rig.reader->pending() == 1);
    CHECK(*rig.reader->collect(out, true) == 1);
}
