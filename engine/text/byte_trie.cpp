#include "engine/text/byte_trie.h"

namespace sluice {

void ByteTrie::add(std::string_view word, uint32_t number) {
    uint32_t node = root;
    nodes_[node].words.push_back(number);
    for (char c : word) {
        const auto byte = static_cast<uint8_t>(c);
        uint32_t below = next(node, byte);
        if (below == none) {
            below = static_cast<uint32_t>(nodes_.size());
            nodes_[node].next.emplace_back(byte, below);
            nodes_.emplace_back();
        }
        node = below;
        nodes_[node].words.push_back(number);
    }
    nodes_[node].word = number;
}

uint32_t ByteTrie::next(uint32_t node, uint8_t byte) const {
    for (const auto& [label, below] : nodes_[node].next) {
        if (label == byte) return below;
    }
    return none;
}

}  // namespace sluice
