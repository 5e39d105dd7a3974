#include "engine/load/read_trial.h"

#include <array>

#include "io/clock.h"

namespace sluice {

ReadTrial::ReadTrial(const ExpertMap& map, ReadRing& ring, std::span<std::byte> memory,
                     const std::atomic<bool>* cancel)
    : map_(map), ring_(ring), cancel_(cancel), reader_(ring, map) {
    for (uint64_t at = 0; at + map.slot_bytes() <= memory.size(); at += map.slot_bytes()) {
        free_.push_back(memory.data() + at);
    }
}

void ReadTrial::ask() {
    const ExpertKey key{static_cast<int32_t>(random_() % static_cast<uint64_t>(map_.layers())),
                        static_cast<int32_t>(random_() % static_cast<uint64_t>(map_.experts()))};
    reader_.request(key, free_.back(), Urgency::demand);
    free_.pop_back();
}

Result<void> ReadTrial::collect() {
    std::array<Arrived, 16> arrived;
    auto count = reader_.collect(arrived, true);
    if (!count) return tl::unexpected(count.error());
    for (size_t i = 0; i < *count; ++i) {
        free_.push_back(arrived[i].slot);
        if (arrived[i].error) return tl::unexpected(*arrived[i].error);
    }
    if (cancel_ && cancel_->load(std::memory_order_relaxed)) {
        return fail(Code::interrupted, "interrupted");
    }
    return {};
}

Result<double> ReadTrial::measure(uint32_t burst, double seconds) {
    const auto start = ring_.now();
    const auto passed = [&] { return to_seconds(ring_.now() - start); };
    const uint64_t before = reader_.bytes_read();
    while (passed() < seconds) {
        size_t wanted = burst > 0 ? burst : free_.size();
        while (wanted-- > 0 && !free_.empty()) ask();
        do {
            if (auto done = collect(); !done) return tl::unexpected(done.error());
        } while (burst > 0 && reader_.pending() > 0);
    }
    while (reader_.pending() > 0) {
        if (auto done = collect(); !done) return tl::unexpected(done.error());
    }
    return static_cast<double>(reader_.bytes_read() - before) / passed();
}

}  // namespace sluice
