// DeviceExperts over a device whose memory only its own operations may touch.
#include "cache/device_experts.h"

#include <doctest/doctest.h>

#include "tests/cache/rig.h"
#include "tests/support/device_like.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// One cache slot, two transit slots, and the experts of dsv41-tiny in host memory with the layout
// of RAM slots.
struct OnDevice {
    const Model& model = Model::get();
    DeviceLike device{16u << 20};
    std::unique_ptr<DeviceExperts> experts;

    explicit OnDevice(bool poison) {
        const auto rows = static_cast<int32_t>(model.truth.at({0, 0})[w1_scales].size());
        auto made = DeviceExperts::create(
            {.cache_slots = 1, .transit_slots = 2, .policy = "lru", .seed = 0, .poison = poison},
            *model.map, device, rows, 32);
        REQUIRE(made);
        experts = std::move(*made);
    }

    std::vector<std::byte> host(ExpertKey key) const {
        std::vector<std::byte> slot(model.map->slot_bytes());
        const ReadPlan& plan = model.map->plan(key);
        for (size_t part = 0; part < expert_parts; ++part) {
            const auto& bytes = model.truth.at(key)[part];
            std::memcpy(slot.data() + plan.starts[part], bytes.data(), bytes.size());
        }
        return slot;
    }
    std::vector<int32_t> begin(int32_t layer, std::vector<int32_t> wanted) {
        std::vector<int32_t> missing;
        experts->begin(layer, wanted, DemandKind::decode, missing);
        return missing;
    }
    void bring(ExpertKey key) {
        const auto bytes = host(key);
        REQUIRE(experts->upload(key, bytes.data()));
        experts->flush();
    }
    // Bytes of w2's codes in device memory, starting at `at`.
    std::vector<std::byte> codes(const uint8_t* at, ExpertKey key) {
        std::vector<std::byte> bytes(model.truth.at(key)[w2_codes].size());
        REQUIRE(device.download(bytes.data(), at, bytes.size()));
        return bytes;
    }
};

}  // namespace

TEST_CASE("an expert in VRAM is the one asked for, or an error") {
    OnDevice tier(false);
    CHECK(tier.begin(0, {5}) == std::vector<int32_t>{5});
    CHECK_FALSE(tier.experts->weights({0, 5}));  // has a place, but is not uploaded yet
    tier.bring({0, 5});
    auto weights = tier.experts->weights({0, 5});
    REQUIRE(weights);
    CHECK(tier.codes(weights->w2.codes, {0, 5}) == tier.model.truth.at({0, 5})[w2_codes]);
    tier.experts->used();
    CHECK(tier.begin(0, {5}).empty());
    CHECK_FALSE(tier.experts->weights({1, 5}));
    CHECK_FALSE(tier.experts->weights({0, 6}));
}

TEST_CASE("the VRAM slot of an evicted expert is poisoned until the next one arrives") {
    for (bool poison : {false, true}) {
        CAPTURE(poison);
        OnDevice tier(poison);
        tier.begin(0, {5});
        tier.bring({0, 5});
        const uint8_t* where = tier.experts->weights({0, 5})->w2.codes;
        tier.experts->used();
        tier.begin(1, {7});
        const auto left = tier.codes(where, {0, 5});
        const std::vector<std::byte> all(left.size(), std::byte{0xff});
        CHECK((left == all) == poison);
        CHECK((left == tier.model.truth.at({0, 5})[w2_codes]) == !poison);
        tier.bring({1, 7});
        CHECK(tier.experts->weights({1, 7})->w2.codes == where);
        CHECK(tier.codes(where, {1, 7}) == tier.model.truth.at({1, 7})[w2_codes]);
        tier.experts->used();
    }
}

TEST_CASE("a transit slot in VRAM is not reused before its use is marked") {
    OnDevice tier(true);
    CHECK(tier.begin(0, {1, 2, 3, 4}).size() == 4);
    tier.bring({0, 1});  // the cache slot
    tier.bring({0, 2});
    tier.bring({0, 3});
    const auto bytes = tier.host({0, 4});
    CHECK_FALSE(tier.experts->upload({0, 4}, bytes.data()));
    tier.experts->used();
    CHECK(tier.experts->upload({0, 4}, bytes.data()));
}
