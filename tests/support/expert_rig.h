// An open checkpoint with an expert map, a ring over any engine and a reader, and the bytes that it
// should deliver.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/expert_reader.h"
#include "io/memory.h"
#include "tests/support/expert_shards.h"
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

namespace sluice {

enum class RigEngine { uring, threads, simulated };

inline std::array<const Tensor*, expert_parts> parts_of(const Checkpoint& checkpoint,
                                                        ExpertKey key) {
    std::array<const Tensor*, expert_parts> parts;
    for (int part = 0; part < expert_parts; ++part) {
        parts[static_cast<size_t>(part)] = checkpoint.find(expert_name(key, part));
        REQUIRE(parts[static_cast<size_t>(part)]);
    }
    return parts;
}

// A checkpoint with its experts, a ring and a reader over it.
struct Rig {
    Checkpoint checkpoint;
    ExpertMap map;
    SimEngine* sim = nullptr;  // the engine of a simulated ring
    std::unique_ptr<ReadRing> ring;
    std::unique_ptr<ExpertReader> reader;
    std::deque<PageBuffer> slots;

    static Checkpoint open(const CheckpointOptions& options) {
        auto opened = Checkpoint::open(options);
        if (!opened) FAIL(opened.error().message);
        return std::move(*opened);
    }
    static int32_t count(const Checkpoint& checkpoint, bool layers) {
        int32_t n = 0;
        while (checkpoint.find(expert_name(layers ? ExpertKey{n, 0} : ExpertKey{0, n}, 0))) ++n;
        return n;
    }

    Rig(const std::filesystem::path& folder, ExpertTuning tuning, Access access = Access::direct)
        : Rig(CheckpointOptions{{folder.string()}, "", access}, tuning) {}

    Rig(const CheckpointOptions& options, ExpertTuning tuning)
        : checkpoint(open(options)),
          map(count(checkpoint, true), count(checkpoint, false), checkpoint.shards(), tuning,
              checkpoint.copies()) {
        for (int32_t layer = 0; layer < map.layers(); ++layer) {
            for (int32_t expert = 0; expert < map.experts(); ++expert) {
                REQUIRE(map.add({layer, expert}, parts_of(checkpoint, {layer, expert})));
            }
        }
    }

    void start(RigEngine engine, uint32_t depth, uint64_t seed = 0, SimFaults faults = {}) {
        std::unique_ptr<RingEngine> made;
        if (engine == RigEngine::simulated) {
            made = std::make_unique<SimEngine>(seed, faults);
            sim = static_cast<SimEngine*>(made.get());
        } else {
            RingOptions options{engine == RigEngine::uring ? IoEngine::uring : IoEngine::threads,
                                depth, 4};
            auto result = engine == RigEngine::uring ? make_uring_engine(options)
                                                     : make_threads_engine(options);
            REQUIRE(result);
            made = std::move(*result);
        }
        start(std::move(made), depth);
    }

    void start(std::unique_ptr<RingEngine> engine, uint32_t depth) {
        reader.reset();
        ring = std::make_unique<ReadRing>(std::move(engine), depth);
        for (size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
            std::vector<const File*> copies{&checkpoint.shards()[shard]};
            for (const File& copy : checkpoint.copies()[shard]) copies.push_back(&copy);
            for (const File* file : copies) REQUIRE(ring->add_file(*file));
            ring->add_copies(copies);
        }
        reader = std::make_unique<ExpertReader>(*ring, map);
    }

    std::byte* slot() {
        auto buffer = PageBuffer::create(map.slot_bytes(), "test");
        REQUIRE(buffer);
        std::memset(buffer->data(), 0xa5, buffer->size());
        slots.push_back(std::move(*buffer));
        return slots.back().data();
    }

    void request(ExpertKey key, Urgency urgency = Urgency::demand) {
        reader->request(key, slot(), urgency);
    }

    std::vector<Arrived> collect_all() {
        std::vector<Arrived> all;
        while (reader->pending() > 0) {
            std::array<Arrived, 3> some;
            const auto count = reader->collect(some, true);
            REQUIRE(count);
            REQUIRE(*count > 0);
            for (size_t i = 0; i < *count; ++i) all.push_back(std::move(some[i]));
        }
        return all;
    }

    // Whether the slot has the same six tensors as a plain read of the file.
    bool holds(const std::byte* slot_data, ExpertKey key) {
        for (int part = 0; part < expert_parts; ++part) {
            const Tensor* tensor = checkpoint.find(expert_name(key, part));
            std::string& file = files_[tensor->shard];
            if (file.empty()) file = read_file(checkpoint.shards()[tensor->shard].path());
            const uint64_t start = map.plan(key).starts[static_cast<size_t>(part)];
            if (start + tensor->bytes > map.slot_bytes()) return false;
            if (std::memcmp(slot_data + start, file.data() + tensor->offset, tensor->bytes) != 0) {
                return false;
            }
        }
        return true;
    }

 private:
    std::map<uint32_t, std::string> files_;
};

}  // namespace sluice
