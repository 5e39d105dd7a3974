#include "cache/policy.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "cache/choosing_policy.h"
#include "cache/named_kinds.h"
#include "cache/recency.h"

namespace sluice {
namespace {

using Evictable = std::function<bool(uint32_t slot)>;

// SplitMix64: every input bit reaches every output bit.
uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

class Lru final : public Policy {
 public:
    explicit Lru(const PolicyOptions& options) : order_(options.slots, 1) {}
    void inserted(uint32_t slot, ExpertKey) override { order_.push_back(0, slot); }
    void touched(uint32_t slot, ExpertKey) override {
        order_.remove(0, slot);
        order_.push_back(0, slot);
    }
    void removed(uint32_t slot) override { order_.remove(0, slot); }
    void token_passed() override {}
    int64_t victim(const Evictable& evictable, ExpertKey) override {
        return order_.oldest(0, evictable);
    }

 private:
    SlotLists order_;
};

// Evicts the entry of the greatest age / (1 + uses).
//
// Layers come round in a fixed order, so age is counted in rounds: how often the entry's layer came
// round without using it, plus how far off the layer is, as a part of a round. Of what was used
// equally long ago, that goes which would wait longest for its next chance.
//
// An expert's uses fade, by half while the cache is used 12 times as often as it has slots, and
// outlive its eviction. Integers only, so that every machine evicts the same.
class AgeByUses final : public Policy {
 public:
    explicit AgeByUses(const PolicyOptions& options)
        : layers_(static_cast<uint32_t>(options.layers)),
          experts_(static_cast<size_t>(options.experts)),
          half_life_(std::max<uint64_t>(1, uint64_t{uses_per_slot} * options.slots)),
          order_(options.slots, classes * layers_),
          entries_(options.slots),
          history_(layers_ * experts_),
          oldest_(size_t{classes} * layers_, none),
          in_class_(classes, 0),
          now_(layers_) {}
    void inserted(uint32_t slot, ExpertKey key) override { append(slot, key); }
    void touched(uint32_t slot, ExpertKey key) override {
        removed(slot);
        append(slot, key);
    }
    void removed(uint32_t slot) override {
        const uint32_t list = entries_[slot].list;
        order_.remove(list, slot);
        --in_class_[list / layers_];
        const int64_t front = order_.front(list);
        oldest_[list] = front < 0 ? none : entries_[static_cast<size_t>(front)].round;
    }
    void token_passed() override { ++round_; }
    int64_t victim(const Evictable& evictable, ExpertKey wanted) override {
        const auto layer = static_cast<uint32_t>(wanted.layer);
        for (uint32_t one = 0; one < layers_; ++one) {
            now_[one] = one <= layer ? int64_t{round_ + 1} * layers_ - (layer - one)
                                     : int64_t{round_ - 1} * layers_ + (one - layer);
        }
        const int64_t first = worst([this](uint32_t list) { return oldest_[list]; });
        if (first < 0) return -1;
        const int64_t slot = order_.front(static_cast<uint32_t>(first));
        if (evictable(static_cast<uint32_t>(slot))) return slot;
        const int64_t list = worst([&](uint32_t one) {
            const int64_t oldest = order_.oldest(one, evictable);
            return oldest < 0 ? none : entries_[static_cast<size_t>(oldest)].round;
        });
        return list < 0 ? -1 : order_.oldest(static_cast<uint32_t>(list), evictable);
    }

 private:
    static constexpr uint32_t uses_per_slot = 12;  // until uses count half
    // 1 + uses, with 8 bits after the point, in four classes to a doubling.
    static constexpr uint32_t one_use = 256, doublings = 17, classes = 4 * doublings;
    static constexpr int64_t none = INT64_MAX;
    struct Entry {
        int64_t round = 0;  // of its last use
        uint32_t list = 0;
    };
    struct History {
        uint64_t last = 0;  // the clock's time of the last use
        uint32_t uses = 0;  // then, with 8 bits after the point
    };
    static uint32_t class_of(uint32_t weight) {
        const auto bits = static_cast<uint32_t>(std::bit_width(weight)) - 1;  // at least 8
        return std::min(classes - 1, 4 * (bits - 8) + (weight >> (bits - 2)) % 4);
    }
    static int64_t weight_of(uint32_t one) {  // the middle of the class
        return (9 + 2 * (one % 4)) * (int64_t{1} << (one / 4 + 5));
    }
    uint32_t faded(uint32_t uses, uint64_t since) const {
        const uint64_t halvings = since / half_life_;
        if (halvings >= 32) return 0;
        const uint64_t rest = 256 * (since % half_life_) / half_life_;
        return static_cast<uint32_t>((uses >> halvings) * (512 - rest) / 512);
    }
    void append(uint32_t slot, ExpertKey key) {
        const auto layer = static_cast<uint32_t>(key.layer);
        History& history = history_[layer * experts_ + static_cast<size_t>(key.expert)];
        ++clock_;
        history.uses = faded(history.uses, clock_ - history.last) + one_use;
        history.last = clock_;
        const uint32_t in = class_of(one_use + history.uses);
        const uint32_t list = in * layers_ + layer;
        entries_[slot] = {round_, list};
        if (order_.size(list) == 0) oldest_[list] = round_;
        order_.push_back(list, slot);
        ++in_class_[in];
    }
    // The list with the entry to evict; `oldest_of` gives the round of a list's oldest one.
    template <class OldestOf>
    int64_t worst(const OldestOf& oldest_of) const {
        int64_t found = -1, age = 0, weight = 1;
        for (uint32_t in = 0; in < classes; ++in) {
            if (in_class_[in] == 0) continue;
            int64_t list = -1, its_age = INT64_MIN;
            for (uint32_t layer = 0; layer < layers_; ++layer) {
                const int64_t round = oldest_of(in * layers_ + layer);
                if (round == none) continue;
                const int64_t one = now_[layer] - round * layers_;
                if (one > its_age) list = in * layers_ + layer, its_age = one;
            }
            if (list < 0 || (found >= 0 && its_age * weight <= age * weight_of(in))) continue;
            found = list, age = its_age, weight = weight_of(in);
        }
        return found;
    }

    uint32_t layers_;
    size_t experts_;
    uint64_t half_life_;
    SlotLists order_;  // [classes][layers]
    std::vector<Entry> entries_;
    std::vector<History> history_;  // [layers][experts]
    std::vector<int64_t> oldest_;   // [classes][layers]: round of the front's last use, or none
    std::vector<uint32_t> in_class_;
    std::vector<int64_t> now_;  // [layers]: what an entry used in round 0 is old
    int64_t round_ = 1;
    uint64_t clock_ = 0;  // uses
};

// LRU that draws its victim among the oldest 8 % instead of taking the oldest. If the same experts
// come round and are just too many for the cache, LRU evicts each of them right before it is
// needed; the draw keeps most of them until their turn.
class DrawnLru final : public Policy {
 public:
    explicit DrawnLru(const PolicyOptions& options) : ages_(options.slots), seed_(options.seed) {}
    void inserted(uint32_t slot, ExpertKey) override { ages_.push_newest(slot); }
    void touched(uint32_t slot, ExpertKey) override {
        ages_.remove(slot);
        ages_.push_newest(slot);
    }
    void removed(uint32_t slot) override { ages_.remove(slot); }
    void token_passed() override {
        ++clock_;
        draw_ = 0;
    }
    int64_t victim(const Evictable& evictable, ExpertKey) override {
        const uint32_t count = ages_.count();
        if (count == 0) return -1;
        const uint32_t oldest = std::max<uint32_t>(1, count * oldest_percent / 100);
        const uint64_t drawn = mixed(mixed(seed_ ^ mixed(clock_)) + draw_++);
        const auto first = static_cast<uint32_t>(drawn % oldest);
        for (uint32_t i = 0; i < count; ++i) {  // passes those in use, towards younger ones
            const uint32_t slot = ages_.at((first + i) % count);
            if (evictable(slot)) return slot;
        }
        return -1;
    }

 private:
    static constexpr uint64_t oldest_percent = 8;
    AgeRanks ages_;
    uint64_t seed_;
    uint64_t clock_ = 0;
    uint64_t draw_ = 0;
};

// Least frequently used with dynamic aging: an entry's worth is its uses plus the worth that the
// last victim had when the entry was last used, so entries age without a pass over all of them.
// Between equals the least recently used one is evicted.
class Lfu final : public Policy {
 public:
    explicit Lfu(const PolicyOptions& options)
        : entries_(options.slots), place_(options.slots, UINT32_MAX) {
        heap_.reserve(options.slots);
        aside_.reserve(options.slots);
    }
    void inserted(uint32_t slot, ExpertKey) override {
        entries_[slot] = {1, floor_ + 1, ++sequence_};
        push(slot);
    }
    void touched(uint32_t slot, ExpertKey) override {
        Entry& entry = entries_[slot];
        ++entry.uses;
        entry.worth = floor_ + entry.uses;
        entry.last = ++sequence_;
        sink(place_[slot]);
    }
    void removed(uint32_t slot) override { take(place_[slot]); }
    void token_passed() override {}
    int64_t victim(const Evictable& evictable, ExpertKey) override {
        int64_t found = -1;
        aside_.clear();
        while (!heap_.empty() && found < 0) {
            const uint32_t slot = heap_.front();
            if (evictable(slot)) {
                found = slot;
                floor_ = std::max(floor_, entries_[slot].worth);
            } else {
                aside_.push_back(slot);
                take(0);
            }
        }
        for (uint32_t slot : aside_) push(slot);
        return found;
    }

 private:
    struct Entry {
        uint64_t uses, worth, last;
    };
    bool before(uint32_t a, uint32_t b) const {
        const Entry &x = entries_[a], &y = entries_[b];
        return x.worth != y.worth ? x.worth < y.worth : x.last < y.last;
    }
    void put(uint32_t at, uint32_t slot) {
        heap_[at] = slot;
        place_[slot] = at;
    }
    void push(uint32_t slot) {
        heap_.push_back(slot);
        rise(static_cast<uint32_t>(heap_.size()) - 1);
    }
    void take(uint32_t at) {
        place_[heap_[at]] = UINT32_MAX;
        const uint32_t last = heap_.back();
        heap_.pop_back();
        if (at == heap_.size()) return;
        put(at, last);
        rise(at);
        sink(place_[last]);
    }
    void rise(uint32_t at) {
        const uint32_t slot = heap_[at];
        for (; at > 0 && before(slot, heap_[(at - 1) / 2]); at = (at - 1) / 2) {
            put(at, heap_[(at - 1) / 2]);
        }
        put(at, slot);
    }
    void sink(uint32_t at) {
        const uint32_t slot = heap_[at];
        const auto size = static_cast<uint32_t>(heap_.size());
        while (2 * at + 1 < size) {
            uint32_t child = 2 * at + 1;
            if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
            if (!before(heap_[child], slot)) break;
            put(at, heap_[child]);
            at = child;
        }
        put(at, slot);
    }

    std::vector<Entry> entries_;   // [slots]
    std::vector<uint32_t> place_;  // [slots]: where in the heap
    std::vector<uint32_t> heap_, aside_;
    uint64_t floor_ = 0;
    uint64_t sequence_ = 0;
};

// Segmented LRU: an expert is protected once it was used twice (at most 80 % of the slots), so a
// series of experts used once cannot empty the cache.
class Slru final : public Policy {
 public:
    explicit Slru(const PolicyOptions& options)
        : order_(options.slots, 2),
          list_(options.slots, probation),
          protected_max_(static_cast<uint32_t>(uint64_t{options.slots} * 80 / 100)) {}
    void inserted(uint32_t slot, ExpertKey) override { append(slot, probation); }
    void touched(uint32_t slot, ExpertKey) override {
        order_.remove(list_[slot], slot);
        append(slot, protected_);
        if (order_.size(protected_) <= protected_max_) return;
        const auto oldest = static_cast<uint32_t>(order_.front(protected_));
        order_.remove(protected_, oldest);
        append(oldest, probation);
    }
    void removed(uint32_t slot) override { order_.remove(list_[slot], slot); }
    void token_passed() override {}
    int64_t victim(const Evictable& evictable, ExpertKey) override {
        const int64_t slot = order_.oldest(probation, evictable);
        return slot >= 0 ? slot : order_.oldest(protected_, evictable);
    }

 private:
    enum : uint8_t { probation, protected_ };
    void append(uint32_t slot, uint8_t list) {
        list_[slot] = list;
        order_.push_back(list, slot);
    }
    SlotLists order_;
    std::vector<uint8_t> list_;
    uint32_t protected_max_;
};

// One LRU per layer, each with its share of the slots, so that no layer displaces another.
class LayerLru final : public Policy {
 public:
    explicit LayerLru(const PolicyOptions& options)
        : order_(options.slots, static_cast<uint32_t>(options.layers)),
          layer_(options.slots, 0),
          used_(options.slots, 0),
          layers_(static_cast<uint32_t>(options.layers)),
          slots_(options.slots) {}
    void inserted(uint32_t slot, ExpertKey key) override { append(slot, key); }
    void touched(uint32_t slot, ExpertKey key) override {
        order_.remove(layer_[slot], slot);
        append(slot, key);
    }
    void removed(uint32_t slot) override { order_.remove(layer_[slot], slot); }
    void token_passed() override {}
    int64_t victim(const Evictable& evictable, ExpertKey wanted) override {
        const auto own = static_cast<uint32_t>(wanted.layer);
        if (order_.size(own) >= quota(own)) {
            const int64_t slot = order_.oldest(own, evictable);
            if (slot >= 0) return slot;
        }
        // The oldest in layers above their share; if none of those may go, the oldest of all.
        const int64_t slot = oldest_of_layers(evictable, true);
        return slot >= 0 ? slot : oldest_of_layers(evictable, false);
    }

 private:
    uint32_t quota(uint32_t layer) const {
        return slots_ / layers_ + (layer < slots_ % layers_ ? 1 : 0);
    }
    int64_t oldest_of_layers(const Evictable& evictable, bool above_quota) const {
        int64_t oldest = -1;
        for (uint32_t layer = 0; layer < layers_; ++layer) {
            if (above_quota && order_.size(layer) <= quota(layer)) continue;
            const int64_t slot = order_.oldest(layer, evictable);
            if (slot < 0) continue;
            if (oldest < 0 || used_[static_cast<size_t>(slot)] < used_[static_cast<size_t>(oldest)])
                oldest = slot;
        }
        return oldest;
    }
    void append(uint32_t slot, ExpertKey key) {
        layer_[slot] = static_cast<uint32_t>(key.layer);
        used_[slot] = ++sequence_;
        order_.push_back(layer_[slot], slot);
    }
    SlotLists order_;
    std::vector<uint32_t> layer_;
    std::vector<uint64_t> used_;
    uint32_t layers_, slots_;
    uint64_t sequence_ = 0;
};

// The best of three: the first for nearly all routes, the second for requests asked again and
// again, the third for topics that drift.
class AgingLru final : public ChoosingPolicy {
 public:
    explicit AgingLru(const PolicyOptions& options) : ChoosingPolicy(rivals(options), options) {}

 private:
    template <class Kind>
    static Rival rival(const char* name, const PolicyOptions& options) {
        PolicyOptions alone = options;
        alone.slots = sampled_slots(options);
        return {name, std::make_unique<Kind>(options), std::make_unique<Kind>(alone)};
    }
    static std::vector<Rival> rivals(const PolicyOptions& options) {
        std::vector<Rival> out;
        out.push_back(rival<AgeByUses>("uses", options));
        out.push_back(rival<Slru>("slru", options));
        out.push_back(rival<Lru>("lru", options));
        return out;
    }
};

constexpr NamedKind<Policy, PolicyOptions> kinds[] = {
    {"aging-lru", make_kind<AgingLru>},  // its rivals are in the list, too
    {"uses", make_kind<AgeByUses>},
    {"slru", make_kind<Slru>},
    {"lru", make_kind<Lru>},
    {"drawn-lru", make_kind<DrawnLru>},
    {"lfu", make_kind<Lfu>},
    {"layer-lru", make_kind<LayerLru>},
};

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view name, const PolicyOptions& options) {
    assert(options.layers > 0);
    return make_named(kinds, "cache policy", name, options);
}

std::vector<std::string> policy_names() {
    return names_of(kinds);
}

}  // namespace sluice
