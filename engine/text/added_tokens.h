// Finds added tokens in text: the leftmost match, and the longest of those that begin there.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

class AddedTokenFinder {
 public:
    struct Match {
        size_t begin, bytes;
        int32_t id;  // -1: none
    };

    // Requires a non-empty text.
    void add(std::string_view text, int32_t id);
    bool empty() const { return ids_.size() == 1; }
    Match find(std::string_view text, size_t from) const;

 private:
    static uint64_t edge(uint32_t node, char byte) {
        return static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte);
    }

    std::unordered_map<uint64_t, uint32_t> edges_;  // (node, byte) -> node; 0 is the root
    std::vector<int32_t> ids_{-1};                  // by node: the token that ends there, or -1
    std::vector<bool> begins_ = std::vector<bool>(256);  // bytes that begin some token
};

}  // namespace sluice
