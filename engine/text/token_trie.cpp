#include "engine/text/token_trie.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace sluice {

namespace {

constexpr size_t bytes_max = std::numeric_limits<uint16_t>::max();

size_t common_prefix(std::string_view a, std::string_view b) {
    const auto pair = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<size_t>(pair.first - a.begin());
}

}  // namespace

TokenTrie::TokenTrie(std::vector<Entry> entries) {
    // A longer token would not fit a node. Leaving it out only makes it unavailable.
    std::erase_if(entries, [](const Entry& entry) { return entry.bytes.size() > bytes_max; });
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.bytes, a.id) < std::tie(b.bytes, b.id);
    });
    nodes_.push_back({0, 0, 0, 0});
    std::vector<uint32_t> open{0};  // the nodes of the current text, by depth
    std::string_view before;
    for (const Entry& entry : entries) {
        add_nodes(entry.bytes, common_prefix(before, entry.bytes), open);
        before = entry.bytes;
        tokens_.push_back({entry.id, entry.tag});
        nodes_.back().tokens = static_cast<uint32_t>(tokens_.size());
        depth_ = std::max(depth_, entry.bytes.size());
    }
    add_nodes({}, 0, open);
    nodes_[0].after = static_cast<uint32_t>(nodes_.size());
}

// Closes the open nodes deeper than `shared`, and adds those of the rest of `text`.
void TokenTrie::add_nodes(std::string_view text, size_t shared, std::vector<uint32_t>& open) {
    while (open.size() > shared + 1) {
        nodes_[open.back()].after = static_cast<uint32_t>(nodes_.size());
        open.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
        open.push_back(static_cast<uint32_t>(nodes_.size()));
        nodes_.push_back(
            {0, nodes_.back().tokens, static_cast<uint16_t>(i + 1), static_cast<uint8_t>(text[i])});
    }
}

}  // namespace sluice
