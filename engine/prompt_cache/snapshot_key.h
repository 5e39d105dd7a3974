// What a stored snapshot is found by: how many tokens, and a checksum of their ids. Equal keys are
// only likely to mean equal ids, so whoever restores a snapshot compares the ids (holds_ids()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct SnapshotKey {
    int32_t tokens = 0;
    uint64_t hash = 0;
    auto operator<=>(const SnapshotKey&) const = default;
};

SnapshotKey key_of(std::span<const int32_t> ids);

// Those of `stored` that are the key of a prefix of `ids` with more than `least` tokens, without
// the last one; the longest first. Reads each id once.
std::vector<SnapshotKey> prefixes_among(std::vector<SnapshotKey> stored,
                                        std::span<const int32_t> ids, int32_t least);

// Whether the ids in a snapshot are exactly `ids`; false for bytes that are no snapshot.
bool holds_ids(std::span<const std::byte> snapshot, std::span<const int32_t> ids);

// "TOKENS-HASH.snapshot", with 16 hex digits; nothing for any other name.
std::string file_name(SnapshotKey key);
std::optional<SnapshotKey> parse_file_name(std::string_view name);

}  // namespace sluice
