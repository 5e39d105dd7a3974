#include "engine/prompt_cache/memory_snapshots.h"

#include <algorithm>

namespace sluice {

std::list<MemorySnapshots::Entry>::iterator MemorySnapshots::find(SnapshotKey key) {
    return std::ranges::find(entries_, key, &Entry::key);
}

void MemorySnapshots::erase(std::list<Entry>::iterator entry) {
    bytes_ -= entry->snapshot->size();
    entries_.erase(entry);
}

bool MemorySnapshots::make_room(uint64_t bytes) {
    const auto held = [](const Entry& entry) { return entry.snapshot.use_count() > 1; };
    uint64_t pinned = 0;
    for (const Entry& entry : entries_) pinned += held(entry) ? entry.snapshot->size() : 0;
    if (bytes > bytes_max_ || pinned > bytes_max_ - bytes) return false;
    auto entry = entries_.end();
    while (bytes_ > bytes_max_ - bytes && entry != entries_.begin()) {
        --entry;
        if (held(*entry)) continue;
        const auto dropped = entry;
        ++entry;
        erase(dropped);
    }
    return bytes_ <= bytes_max_ - bytes;
}

bool MemorySnapshots::put(SnapshotKey key, SharedSnapshot snapshot) {
    remove(key);
    if (!make_room(snapshot->size())) return false;
    bytes_ += snapshot->size();
    entries_.push_front({key, std::move(snapshot)});
    return true;
}

SharedSnapshot MemorySnapshots::use(SnapshotKey key) {
    const auto entry = find(key);
    if (entry == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->snapshot;
}

void MemorySnapshots::remove(SnapshotKey key) {
    if (const auto entry = find(key); entry != entries_.end()) erase(entry);
}

std::vector<SnapshotKey> MemorySnapshots::keys() const {
    std::vector<SnapshotKey> keys;
    for (const Entry& entry : entries_) keys.push_back(entry.key);
    return keys;
}

}  // namespace sluice
