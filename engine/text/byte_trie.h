// A set of numbered words, followed byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class ByteTrie {
 public:
    static constexpr uint32_t none = ~uint32_t{0}, root = 0;

    // Numbers must not decrease from call to call.
    void add(std::string_view word, uint32_t number);
    bool empty() const { return nodes_.size() == 1 && nodes_[0].words.empty(); }

    uint32_t next(uint32_t node, uint8_t byte) const;  // none: no word continues so
    bool is_leaf(uint32_t node) const { return nodes_[node].next.empty(); }
    uint32_t word(uint32_t node) const { return nodes_[node].word; }  // that ends here, or none
    // Numbers of the words that end here or below, in order.
    const std::vector<uint32_t>& words(uint32_t node) const { return nodes_[node].words; }

 private:
    struct Node {
        std::vector<std::pair<uint8_t, uint32_t>> next;
        std::vector<uint32_t> words;
        uint32_t word = none;
    };
    std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace sluice
