#include "engine/prompt_cache/snapshot_key.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "engine/snapshot/snapshot_file.h"
#include "io/checksum.h"
#include "io/text.h"

namespace sluice {

SnapshotKey key_of(std::span<const int32_t> ids) {
    Checksum sum;
    sum.add(ids.data(), ids.size_bytes());
    return {static_cast<int32_t>(ids.size()), sum.value()};
}

std::vector<SnapshotKey> prefixes_among(std::vector<SnapshotKey> stored,
                                        std::span<const int32_t> ids, int32_t least) {
    std::ranges::sort(stored);
    std::vector<SnapshotKey> found;
    Checksum sum;
    size_t added = 0;
    for (const SnapshotKey& key : stored) {
        if (key.tokens <= std::max(least, 0)) continue;
        const auto tokens = static_cast<size_t>(key.tokens);
        if (tokens >= ids.size()) break;
        sum.add(ids.data() + added, (tokens - added) * sizeof(int32_t));
        added = tokens;
        const bool known = !found.empty() && found.back() == key;
        if (!known && sum.value() == key.hash) found.push_back(key);
    }
    std::ranges::reverse(found);
    return found;
}

bool holds_ids(std::span<const std::byte> snapshot, std::span<const int32_t> ids) {
    const auto header = read_snapshot_header(snapshot, snapshot.size());
    if (!header || header->sections.empty()) return false;
    const SnapshotSection& section = header->sections.front();
    return section.kind == StateKind::tokens && section.bytes == ids.size_bytes() &&
           std::memcmp(snapshot.data() + section.offset, ids.data(), ids.size_bytes()) == 0;
}

namespace {
constexpr std::string_view suffix = ".snapshot";
constexpr size_t hash_digits = 16;
}  // namespace

std::string file_name(SnapshotKey key) {
    return cat(key.tokens, "-", checksum_text(key.hash), suffix);
}

std::optional<SnapshotKey> parse_file_name(std::string_view name) {
    SnapshotKey key;
    const char* end = name.data() + name.size();
    const auto tokens = std::from_chars(name.data(), end, key.tokens);
    const bool dash = tokens.ec == std::errc() && tokens.ptr != end && *tokens.ptr == '-';
    if (!dash || key.tokens < 1) return std::nullopt;
    const auto hash = std::from_chars(tokens.ptr + 1, end, key.hash, 16);
    // One spelling only: no other number of digits, no capitals.
    return hash.ec == std::errc() && file_name(key) == name ? std::optional(key) : std::nullopt;
}

}  // namespace sluice
