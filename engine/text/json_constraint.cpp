#include "engine/text/json_constraint.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

namespace sluice {

using namespace json;

namespace {

constexpr size_t no_limit = std::numeric_limits<size_t>::max();
constexpr uint32_t wrong = ByteTrie::none - 1;  // instead of a node: no key may begin so

}  // namespace

JsonConstraint::JsonConstraint(const Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                               std::shared_ptr<const JsonGrammar> grammar)
    : tokenizer_(&tokenizer),
      index_(&tokenizer.index()),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      automaton_(std::move(grammar)),
      scratch_(index_->size()) {
    const size_t depth = std::max(index_->all().depth(), index_->closing().depth());
    levels_.resize(depth + 1);
    nodes_.resize(depth + 1);
}

void JsonConstraint::allowed(TokenMask& mask) {
    mask.clear();
    if (ended_) return;
    // Configs do not depend on each other: what one of them allows is allowed.
    const Configs configs = automaton_.configs();
    for (const Config& config : configs) {
        const bool between = config.spot.text == TextState::body;
        if (config.spot.step == Step::text && between) {
            add_in_string(mask, config);
        } else if (config.spot.step == Step::object_other && between) {
            add_in_other_key(mask, config);
        } else {
            add_all(mask, config);
        }
    }
    if (!automaton_.can_end()) return;
    for (int32_t id : end_tokens_) {
        if (id >= 0 && static_cast<size_t>(id) < mask.size()) mask.add(id);
    }
}

void JsonConstraint::accept(int32_t token) {
    const bool ends = std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
    if (ends && automaton_.can_end()) {
        ended_ = true;
        return;
    }
    [[maybe_unused]] const bool fits = automaton_.accept(tokenizer_->bytes(token));
    assert(fits);
}

// Calls `take` with the tokens of the trie that may follow `from`.
template <class Take>
void JsonConstraint::walk(const TokenTrie& trie, const Config& from, Take take) {
    const size_t frames_before = automaton_.frames();
    levels_[0].configs.assign(1, from);
    levels_[0].frames = frames_before;
    const auto step = [&](size_t depth, uint8_t byte) {
        const Level& here = levels_[depth];
        Level& below = levels_[depth + 1];
        automaton_.cut_frames(here.frames);
        automaton_.step(here.configs, byte, below.configs);
        below.frames = automaton_.frames();
        return !below.configs.empty();
    };
    trie.walk(step, take);
    automaton_.cut_frames(frames_before);
}

void JsonConstraint::add_all(TokenMask& mask, const Config& from) {
    walk(index_->all(), from, [&](TokenTrie::Token token) { mask.add(token.id); });
}

// Between two characters of a string nearly every token is allowed, so these are at hand.
void JsonConstraint::add_in_string(TokenMask& mask, const Config& from) {
    const auto& string = std::get<String>(automaton_.grammar().shapes[from.spot.shape]);
    const uint32_t count = from.spot.count;
    const size_t left = string.max == unlimited ? no_limit : string.max - count;
    index_->add_inside(mask, left);
    walk(index_->closing(), automaton_.after_string(from), [&](TokenTrie::Token token) {
        if (token.tag <= left && size_t{count} + token.tag >= string.min) mask.add(token.id);
    });
}

// As in any string, but for tokens that could complete a declared key.
void JsonConstraint::add_in_other_key(TokenMask& mask, const Config& from) {
    scratch_.clear();
    index_->add_inside(scratch_, no_limit);
    walk(index_->closing(), automaton_.after_other_key(from),
         [&](TokenTrie::Token token) { scratch_.add(token.id); });
    const auto& keys = std::get<Object>(automaton_.grammar().shapes[from.spot.shape]).keys;
    nodes_[0] = from.spot.node;
    size_t now = 0;
    const auto step = [&](size_t depth, uint8_t byte) {
        uint32_t node = nodes_[depth];
        if (node != wrong) node = byte == '\\' ? wrong : keys.next(node, byte);
        if (node == ByteTrie::none) return false;
        if (node != wrong && keys.word(node) != ByteTrie::none) node = wrong;
        now = depth + 1;
        nodes_[now] = node;
        return true;
    };
    index_->all().walk(step, [&](TokenTrie::Token token) {
        if (nodes_[now] == wrong) scratch_.remove(token.id);
    });
    mask.add(scratch_);
}

}  // namespace sluice
