// Byte-pair encoding: turns a piece of bytes into token ids by merging the pair with the best rank
// first, the leftmost among equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// Filled once, then immutable: any thread, each with its own Scratch.
class Bpe {
 public:
    struct Symbol {
        int32_t id;  // -1: merged into its left neighbour
        int32_t previous, next;
    };
    struct Candidate {
        uint32_t rank;
        int32_t at;  // the left symbol
        int32_t id;  // of the merged token
    };
    // Memory reused from piece to piece.
    struct Scratch {
        std::vector<Symbol> symbols;
        std::vector<Candidate> heap;
    };

    void set_byte(uint8_t byte, int32_t id) { byte_ids_[byte] = id; }
    // Each call takes the next rank. A repeated pair takes its new rank.
    void add_merge(int32_t left, int32_t right, int32_t result);

    // Appends the ids of one piece, in O(n log n). Requires set_byte() for all 256 bytes and a
    // piece below 2 GiB.
    void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
    struct Merge {
        uint32_t rank;
        int32_t id;
    };
    struct PairHash {
        size_t operator()(uint64_t pair) const;
    };
    void propose(Scratch& scratch, int32_t left) const;

    std::array<int32_t, 256> byte_ids_{};
    std::unordered_map<uint64_t, Merge, PairHash> merges_;
    uint32_t next_rank_ = 0;
};

}  // namespace sluice
