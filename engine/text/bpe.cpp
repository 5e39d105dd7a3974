#include "engine/text/bpe.h"

#include <algorithm>

namespace sluice {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// The order of the heap, which keeps the largest on top: "less" means "worse".
bool worse(const Bpe::Candidate& a, const Bpe::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

size_t Bpe::PairHash::operator()(uint64_t pair) const {
    pair *= 0x9e3779b97f4a7c15u;
    return pair ^ pair >> 32;
}

void Bpe::add_merge(int32_t left, int32_t right, int32_t result) {
    merges_.insert_or_assign(pair_key(left, right), Merge{next_rank_++, result});
}

// Adds the pair that starts at `left` if it merges. Does not restore the heap order.
void Bpe::propose(Scratch& scratch, int32_t left) const {
    if (left < 0) return;
    const Symbol& symbol = scratch.symbols[static_cast<size_t>(left)];
    if (symbol.next < 0) return;
    const int32_t right = scratch.symbols[static_cast<size_t>(symbol.next)].id;
    const auto found = merges_.find(pair_key(symbol.id, right));
    if (found == merges_.end()) return;
    scratch.heap.push_back({found->second.rank, left, found->second.id});
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& ids) const {
    std::vector<Symbol>& symbols = scratch.symbols;
    std::vector<Candidate>& heap = scratch.heap;
    symbols.clear();
    heap.clear();
    const auto count = static_cast<int32_t>(piece.size());
    for (int32_t i = 0; i < count; ++i) {
        const auto byte = static_cast<uint8_t>(piece[static_cast<size_t>(i)]);
        symbols.push_back({byte_ids_[byte], i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (int32_t i = 0; i < count; ++i) propose(scratch, i);
    std::make_heap(heap.begin(), heap.end(), worse);

    auto propose_in_order = [&](int32_t left) {
        const size_t before = heap.size();
        propose(scratch, left);
        if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), worse);
    };
    while (!heap.empty()) {
        std::pop_heap(heap.begin(), heap.end(), worse);
        const Candidate best = heap.back();
        heap.pop_back();
        // Either half may have merged with another neighbour since. Ranks are unique to a pair, so
        // the candidate is still good exactly if the pair that is there now has its rank.
        Symbol& left = symbols[static_cast<size_t>(best.at)];
        if (left.id < 0 || left.next < 0) continue;
        Symbol& right = symbols[static_cast<size_t>(left.next)];
        const auto merge = merges_.find(pair_key(left.id, right.id));
        if (merge == merges_.end() || merge->second.rank != best.rank) continue;
        left.id = best.id;
        left.next = right.next;
        right.id = -1;
        if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.at;
        propose_in_order(left.previous);
        propose_in_order(best.at);
    }
    for (int32_t at = count > 0 ? 0 : -1; at >= 0; at = symbols[static_cast<size_t>(at)].next)
        ids.push_back(symbols[static_cast<size_t>(at)].id);
}

}  // namespace sluice
