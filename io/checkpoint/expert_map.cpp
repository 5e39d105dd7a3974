#include "io/checkpoint/expert_map.h"

#include <algorithm>
#include <cassert>

#include "io/memory.h"
#include "io/ring/share_reads.h"
#include "io/text.h"

namespace sluice {

ExpertMap::ExpertMap(int32_t layers, int32_t experts, const std::vector<File>& shards,
                     ExpertTuning tuning, std::span<const std::vector<File>> copies)
    : layers_(layers), experts_(experts), shards_(shards), files_(shards.size()), tuning_(tuning) {
    assert(layers >= 0 && experts >= 0 && tuning.parts >= 1 && tuning.in_flight_max >= 1);
    for (size_t shard = 0; shard < shards.size(); ++shard) {
        files_[shard].push_back(&shards[shard]);
        if (shard < copies.size()) {
            for (const File& copy : copies[shard]) files_[shard].push_back(&copy);
        }
        assert(files_[shard].size() <= copies_max);
        for (const File* file : files_[shard]) {
            assert(file->alignment() == shards[shard].alignment());
            drives_ = std::max(drives_, file->drive() + 1);
        }
    }
    entries_.resize(static_cast<size_t>(layers) * static_cast<size_t>(experts));
}

Result<void> ExpertMap::add(ExpertKey key, const std::array<const Tensor*, expert_parts>& parts) {
    assert(key.layer >= 0 && key.layer < layers_ && key.expert >= 0 && key.expert < experts_);
    Entry& entry = entries_[static_cast<size_t>(key.layer) * experts_ + key.expert];
    assert(entry.shard == not_added);
    const uint32_t shard = parts[0]->shard;
    for (const Tensor* part : parts) {
        if (part->bytes == 0) {
            return fail(Code::corrupt, cat("layer ", key.layer, ", expert ", key.expert,
                                           ": tensor \"", printable(part->name), "\" is empty"));
        }
        if (part->shard == shard) continue;
        return fail(Code::unsupported,
                    cat("layer ", key.layer, ", expert ", key.expert, ": its tensors \"",
                        printable(parts[0]->name), "\" and \"", printable(part->name),
                        "\" are in two files, ", printable(shards_[shard].path().string()), " and ",
                        printable(shards_[part->shard].path().string())));
    }
    for (uint32_t i = 0; i < expert_parts; ++i) {
        entry.ranges[i] = {parts[i]->offset, parts[i]->bytes};
    }
    entry.shard = shard;
    plan_entry(entry);
    slot_bytes_ = std::max(slot_bytes_, round_up(entry.plan.bytes, page_size));
    return {};
}

// In file order, so that neighbours in the file become one read, whichever parts they are.
void ExpertMap::plan_entry(Entry& entry) {
    std::array<uint32_t, expert_parts> order{0, 1, 2, 3, 4, 5};
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return entry.ranges[a].offset < entry.ranges[b].offset;
    });
    std::array<ByteRange, expert_parts> sorted;
    for (uint32_t i = 0; i < expert_parts; ++i) sorted[i] = entry.ranges[order[i]];
    const File& file = shards_[entry.shard];
    entry.plan = plan_reads(sorted, file.size(), file.alignment(), tuning_.parts, tuning_.part_min);
    std::vector<uint64_t> starts(expert_parts);
    for (uint32_t i = 0; i < expert_parts; ++i) starts[order[i]] = entry.plan.starts[i];
    entry.plan.starts = std::move(starts);
}

void ExpertMap::retune(ExpertTuning tuning) {
    tuning_ = tuning;
    for (Entry& entry : entries_) {
        if (entry.shard != not_added) plan_entry(entry);
    }
}

const ExpertMap::Entry& ExpertMap::entry(ExpertKey key) const {
    assert(has(key));
    return entries_[static_cast<size_t>(key.layer) * experts_ + key.expert];
}

bool ExpertMap::has(ExpertKey key) const {
    return key.layer >= 0 && key.layer < layers_ && key.expert >= 0 && key.expert < experts_ &&
           entries_[static_cast<size_t>(key.layer) * experts_ + key.expert].shard != not_added;
}

uint64_t ExpertMap::expert_bytes(ExpertKey key) const {
    uint64_t bytes = 0;
    for (const ByteRange& range : entry(key).ranges) bytes += range.length;
    return bytes;
}

const ReadPlan& ExpertMap::plan(ExpertKey key) const {
    return entry(key).plan;
}

double ExpertMap::drives_per_layer() const {
    std::vector<uint8_t> holds(static_cast<size_t>(std::max(layers_, 1)) * drives_, 0);
    for (size_t i = 0; i < entries_.size(); ++i) {
        if (entries_[i].shard == not_added) continue;
        const size_t layer = i / static_cast<size_t>(experts_);
        for (const File* file : files_[entries_[i].shard])
            holds[layer * drives_ + file->drive()] = 1;
    }
    const auto held = static_cast<double>(std::count(holds.begin(), holds.end(), 1));
    return held / std::max(layers_, 1);
}

const File& ExpertMap::file(ExpertKey key) const {
    return shards_[entry(key).shard];
}

bool ExpertMap::share_drive(ExpertKey a, ExpertKey b) const {
    if (drives_ == 1) return true;
    for (const File* of_a : copies(a)) {
        for (const File* of_b : copies(b)) {
            if (of_a->drive() == of_b->drive()) return true;
        }
    }
    return false;
}

std::span<const File* const> ExpertMap::copies(ExpertKey key) const {
    return files_[entry(key).shard];
}

ByteRange ExpertMap::range(ExpertKey key, ExpertPart part) const {
    return entry(key).ranges[part];
}

}  // namespace sluice
