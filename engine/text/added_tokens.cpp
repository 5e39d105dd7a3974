#include "engine/text/added_tokens.h"

namespace sluice {

void AddedTokenFinder::add(std::string_view text, int32_t id) {
    begins_[static_cast<uint8_t>(text[0])] = true;
    uint32_t node = 0;
    for (char byte : text) {
        const auto [at, fresh] =
            edges_.try_emplace(edge(node, byte), static_cast<uint32_t>(ids_.size()));
        if (fresh) ids_.push_back(-1);
        node = at->second;
    }
    ids_[node] = id;
}

AddedTokenFinder::Match AddedTokenFinder::find(std::string_view text, size_t from) const {
    for (size_t begin = from; begin < text.size(); ++begin) {
        if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
        Match best{begin, 0, -1};
        uint32_t node = 0;
        for (size_t at = begin; at < text.size(); ++at) {
            const auto next = edges_.find(edge(node, text[at]));
            if (next == edges_.end()) break;
            node = next->second;
            if (ids_[node] >= 0) best = {begin, at + 1 - begin, ids_[node]};
        }
        if (best.id >= 0) return best;
    }
    return {text.size(), 0, -1};
}

}  // namespace sluice
