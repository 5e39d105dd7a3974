// An expert cache over the checkpoint dsv41-tiny, on a drive that the test chooses.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "cache/expert_cache.h"
#include "io/checkpoint/checkpoint.h"
#include "io/memory.h"
#include "io/text.h"
#include "tests/support/expert_shards.h"
#include "tests/support/paths.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {

constexpr int32_t layers = 8, experts = 64, top_k = 6;

// The checkpoint, its experts and, read without a ring, their bytes. Made once.
struct Model {
    Checkpoint checkpoint;
    std::unique_ptr<ExpertMap> map;
    std::map<ExpertKey, std::array<std::vector<std::byte>, expert_parts>> truth;

    // Through the page cache: for simulated drives, which have a timing of their own.
    static const Model& get() {
        static const Model model = load(Access::buffered);
        return model;
    }
    static const Model& direct() {
        static const Model model = load(Access::direct);
        return model;
    }
    // As many layers and experts, each large enough to show a drive's speed and to be read in a
    // dozen pieces. For drives that deliver nothing: there are no bytes to compare.
    static const Model& large() {
        static const TempFolder folder;
        static const Model model = [] {
            std::vector<int32_t> all(layers);
            std::iota(all.begin(), all.end(), 0);
            large_shards().write(folder.path(), all, true);
            return load(Access::buffered, {folder.path()}, false);
        }();
        return model;
    }
    // The same with layers on two drives in turn, no copies.
    static const Model& large_spread() {
        static const TempFolder folders;
        static const Model model = [] {
            std::vector<std::string> locations;
            for (int32_t drive : {0, 1}) {
                const auto folder = std::filesystem::path(folders.path()) / cat("drive", drive);
                std::filesystem::create_directories(folder);
                std::vector<int32_t> mine;
                for (int32_t layer = drive; layer < layers; layer += 2) mine.push_back(layer);
                large_shards().write(folder, mine, drive == 0);
                locations.push_back(folder.string());
            }
            return load(Access::buffered, locations, false);
        }();
        return model;
    }
    static ExpertShards large_shards() {
        return {.layers = layers,
                .experts = experts,
                .codes = 128u << 10,
                .scales = 8u << 10,
                .sparse = true};
    }
    // Shards on two drives in turn, no copies: a layer's experts are on one of them.
    static const Model& spread() {
        static const TempFolder folders;
        static const Model model = [] {
            const std::filesystem::path from(std::string(test::models_folder) + "/dsv41-tiny");
            std::vector<std::string> locations;
            for (size_t drive : {size_t{0}, size_t{1}}) {
                const auto to = std::filesystem::path(folders.path()) / cat("drive", drive);
                std::filesystem::create_directories(to);
                locations.push_back(to.string());
                size_t shard = 0;
                for (const std::string& name : sorted_files(from)) {
                    const bool data = name.ends_with(".safetensors");
                    if (data ? shard++ % 2 == drive : drive == 0) {
                        std::filesystem::create_symlink(from / name, to / name);
                    }
                }
            }
            return load(Access::buffered, locations);
        }();
        return model;
    }
    static std::vector<std::string> sorted_files(const std::filesystem::path& folder) {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }
    static Model load(Access access,
                      std::vector<std::string> locations = {std::string(test::models_folder) +
                                                            "/dsv41-tiny"},
                      bool bytes = true) {
        const ExpertTuning tuning = {
            .parts = 2, .part_min = 4096, .in_flight_max = 4, .prefetch_piece = 32u << 10};
        CheckpointOptions options;
        options.locations = std::move(locations);
        options.access = access;
        auto opened = Checkpoint::open(options);
        if (!opened) FAIL(opened.error().message);
        Model model{std::move(*opened), nullptr, {}};
        model.map = std::make_unique<ExpertMap>(layers, experts, model.checkpoint.shards(), tuning);
        for (int32_t layer = 0; layer < layers; ++layer) {
            for (int32_t expert = 0; expert < experts; ++expert) model.add({layer, expert}, bytes);
        }
        return model;
    }
    void add(ExpertKey key, bool bytes_too) {
        const std::string stem = cat("layers.", key.layer, ".ffn.experts.", key.expert, ".");
        const char* names[] = {"w1.weight", "w2.weight", "w3.weight",
                               "w1.scale",  "w2.scale",  "w3.scale"};
        std::array<const Tensor*, expert_parts> parts;
        for (size_t part = 0; part < parts.size(); ++part) {
            parts[part] = checkpoint.find(stem + names[part]);
            REQUIRE(parts[part]);
            if (!bytes_too) continue;
            auto& bytes = truth[key][part];
            bytes.resize(parts[part]->bytes);
            const File& file = checkpoint.shards()[parts[part]->shard];
            REQUIRE(file.read(parts[part]->offset, bytes.data(), bytes.size()));
        }
        REQUIRE(map->add(key, parts));
    }
};

struct Rig {
    const Model& model;
    ReadRing ring;
    PageBuffer memory;
    std::unique_ptr<ExpertCache> cache;

    Rig(std::unique_ptr<RingEngine> engine, const ExpertCacheOptions& options, uint32_t depth = 16,
        const Model& its_model = Model::get())
        : model(its_model), ring(std::move(engine), depth) {
        for (const File& file : model.checkpoint.shards()) REQUIRE(ring.add_file(file));
        const size_t slots = options.cache_slots + options.transit_slots;
        auto made = PageBuffer::create(slots * model.map->slot_bytes(), "test slots");
        REQUIRE(made);
        memory = std::move(*made);
        REQUIRE(ring.add_memory(memory.span()));
        auto created = ExpertCache::create(options, *model.map, ring, memory.span());
        if (!created) FAIL(created.error().message);
        cache = std::move(*created);
    }
    Rig(uint64_t seed, SimFaults faults, const ExpertCacheOptions& options)
        : Rig(std::make_unique<SimEngine>(seed, faults), options) {}

    // Whether the slot's bytes are those of the checkpoint.
    bool exact(const ExpertHandle& handle) const {
        auto base = cache->bytes(handle);
        if (!base) return false;
        const ReadPlan& plan = model.map->plan(handle.key);
        const auto& parts = model.truth.at(handle.key);
        for (size_t part = 0; part < parts.size(); ++part) {
            const std::byte* at = *base + plan.starts[part];
            if (std::memcmp(at, parts[part].data(), parts[part].size()) != 0) return false;
        }
        return true;
    }
    // A demand from beginning to end, with at most `hold` handles held at once. Returns the experts
    // in the order they were given.
    std::vector<int32_t> run(int32_t layer, const std::vector<int32_t>& wanted, DemandKind kind,
                             size_t hold = 1, bool more = false) {
        auto asked = cache->demand(layer, wanted, kind, more);
        if (!asked) FAIL(asked.error().message);
        std::vector<int32_t> order;
        std::vector<ExpertHandle> held;
        for (size_t i = 0; i < wanted.size(); ++i) {
            auto handle = cache->next();
            if (!handle) FAIL(handle.error().message);
            CHECK(handle->key.layer == layer);
            held.push_back(*handle);
            order.push_back(handle->key.expert);
            if (held.size() < hold && i + 1 < wanted.size()) continue;
            for (const ExpertHandle& one : held) {
                CHECK(exact(one));
                cache->release(one);
            }
            held.clear();
        }
        std::vector<int32_t> a = order, b = wanted;
        std::sort(a.begin(), a.end());
        std::sort(b.begin(), b.end());
        CHECK(a == b);
        return order;
    }
};

// Routes as a model might choose them: some experts much more often than others, and similar ones
// for successive tokens.
class Routes {
 public:
    explicit Routes(uint64_t seed) : random_(seed), last_(layers) {}

    std::vector<int32_t> pick(int32_t layer, int32_t count) {
        std::vector<int32_t>& last = last_[static_cast<size_t>(layer)];
        std::vector<int32_t> chosen;
        while (static_cast<int32_t>(chosen.size()) < count) {
            int32_t expert = static_cast<int32_t>(random_() % experts);
            if (random_() % 2 == 0) expert = expert * expert / experts;  // favours the low ones
            if (!last.empty() && random_() % 3 == 0) expert = last[random_() % last.size()];
            if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) {
                chosen.push_back(expert);
            }
        }
        last = chosen;
        return chosen;
    }
    uint64_t number() { return random_(); }

 private:
    std::mt19937_64 random_;
    std::vector<std::vector<int32_t>> last_;
};

}  // namespace sluice::test
