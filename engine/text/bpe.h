// Byte-pair merges: a piece of bytes to token ids, best rank first, leftmost among equals.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// Filled once, then immutable and for any thread; each caller brings its own Scratch.
class Bpe {
 public:
    struct Symbol {
        int32_t id;  // -1: merged into its left neighbour
        int32_t previous, next;
    };
    struct Candidate {
        uint32_t rank;
        int32_t at;  // the left symbol
        int32_t id;  // what the two become
    };
    // Memory reused from piece to piece.
    struct Scratch {
        std::vector<Symbol> symbols;
        std::vector<Candidate> heap;
    };

    void set_byte(uint8_t byte, int32_t id) { byte_ids_[byte] = id; }
    // The next rank. A pair that is given again takes the new rank.
    void add_merge(int32_t left, int32_t right, int32_t result);

    // Appends the ids of one piece: O(n log n). Requires all 256 bytes set, piece below 2 GiB.
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
