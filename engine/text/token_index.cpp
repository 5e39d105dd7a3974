#include "engine/text/token_index.h"

#include "engine/text/json_text.h"

namespace sluice {

TokenIndex::TokenIndex(size_t size, const std::vector<TokenTrie::Entry>& entries)
    : size_(size), all_(entries), inside_(size) {
    std::vector<TokenTrie::Entry> closing;
    for (const TokenTrie::Entry& entry : entries) add_to_string(entry, closing);
    closing_ = TokenTrie(std::move(closing));
}

void TokenIndex::add_to_string(const TokenTrie::Entry& entry,
                               std::vector<TokenTrie::Entry>& closing) {
    TextState state = TextState::body;
    uint32_t characters = 0;
    for (size_t i = 0; i < entry.bytes.size(); ++i) {
        const TextState then = next(state, static_cast<uint8_t>(entry.bytes[i]));
        if (then == TextState::dead) return;
        if (then == TextState::closed) {
            closing.push_back({entry.bytes.substr(i + 1), entry.id, characters});
            return;
        }
        characters += begins_character(state, then);
        state = then;
    }
    if (inside_by_characters_.size() <= characters) inside_by_characters_.resize(characters + 1);
    inside_by_characters_[characters].push_back(entry.id);
    inside_.add(entry.id);
}

void TokenIndex::add_inside(TokenMask& mask, size_t characters) const {
    if (characters >= inside_by_characters_.size()) return mask.add(inside_);
    for (size_t i = 0; i <= characters; ++i) {
        for (int32_t id : inside_by_characters_[i]) mask.add(id);
    }
}

}  // namespace sluice
