#include "cache/policy.h"

#include <doctest/doctest.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "cache/named_kinds.h"
#include "cache/recency.h"
#include "cache/tier.h"

using namespace sluice;

namespace {

constexpr int32_t layers = 5, experts = 100;

struct Entry {
    bool there = false;
    ExpertKey key;
    uint64_t last = 0, uses = 0, worth = 0;
    bool is_protected = false;
    int64_t round = 0, weight = 0;  // of "uses"
};

// What each policy does, described in plain loops over all slots.
class Plain {
 public:
    Plain(std::string name, uint32_t slots) : name_(std::move(name)), entries_(slots) {
        if (name_ != "aging-lru") return;
        for (const char* rival : {"uses", "slru", "lru"}) rivals_.emplace_back(rival, slots);
    }

    void inserted(uint32_t slot, ExpertKey key) {
        for (Plain& rival : rivals_) rival.inserted(slot, key);
        entries_[slot] = {true, key, ++clock_, 1, floor_ + 1, false};
        remember(entries_[slot]);
    }
    void touched(uint32_t slot) {
        for (Plain& rival : rivals_) rival.touched(slot);
        Entry& entry = entries_[slot];
        entry.last = ++clock_;
        entry.worth = floor_ + ++entry.uses;
        remember(entry);
        if (name_ != "slru") return;
        entry.is_protected = true;
        uint32_t in = 0;
        for (const Entry& one : entries_) in += one.there && one.is_protected;
        if (in <= entries_.size() * 80 / 100) return;
        Entry* oldest = nullptr;
        for (Entry& one : entries_) {
            if (one.there && one.is_protected && (!oldest || one.last < oldest->last))
                oldest = &one;
        }
        oldest->is_protected = false;
        oldest->last = ++clock_;
    }
    void removed(uint32_t slot) {
        for (Plain& rival : rivals_) rival.removed(slot);
        entries_[slot] = {};
    }
    void token_passed() {
        for (Plain& rival : rivals_) rival.token_passed();
        ++round_;
    }

    // The slots that may be the victim; empty: none.
    std::set<uint32_t> victims(const std::set<uint32_t>& in_use, ExpertKey wanted) {
        std::set<uint32_t> of_rivals;
        for (Plain& rival : rivals_) of_rivals.merge(rival.victims(in_use, wanted));
        if (!rivals_.empty()) return of_rivals;
        std::vector<uint32_t> order;
        for (uint32_t slot = 0; slot < entries_.size(); ++slot) {
            if (entries_[slot].there) order.push_back(slot);
        }
        std::sort(order.begin(), order.end(),
                  [&](uint32_t a, uint32_t b) { return rank(a, wanted) < rank(b, wanted); });
        const size_t oldest = std::max<size_t>(1, order.size() * 8 / 100);
        std::vector<uint32_t> free;
        std::set<uint32_t> victims;
        for (size_t i = 0; i < order.size(); ++i) {
            if (in_use.count(order[i])) continue;
            const bool first = victims.empty();
            if (!first && name_ == "uses" &&
                rank(order[i], wanted) == rank(*victims.begin(), wanted)) {
                victims.insert(order[i]);  // as good
            }
            if (first || (name_ == "drawn-lru" && i < oldest)) victims.insert(order[i]);
        }
        // From slots in use the draw moves on to the next younger one.
        if (name_ == "drawn-lru" && !in_use.empty()) {
            for (size_t i = oldest; i < order.size(); ++i) {
                if (in_use.count(order[i])) continue;
                victims.insert(order[i]);
                break;
            }
        }
        if (!victims.empty()) floor_ = std::max(floor_, entries_[*victims.begin()].worth);
        return victims;
    }

 private:
    using Rank = std::tuple<uint64_t, uint64_t>;
    Rank rank(uint32_t slot, ExpertKey wanted) const {
        const Entry& entry = entries_[slot];
        if (name_ == "lfu") return {entry.worth, entry.last};
        if (name_ == "uses")
            return {static_cast<uint64_t>((int64_t{1} << 62) - age(entry, wanted)), 0};
        if (name_ == "slru") return {entry.is_protected, entry.last};
        if (name_ == "layer-lru") {
            const bool own = entry.key.layer == wanted.layer;
            const bool own_full = count(wanted.layer) >= quota(wanted.layer);
            if (own && own_full) return {0, entry.last};
            return {count(entry.key.layer) > quota(entry.key.layer) ? 1 : 2, entry.last};
        }
        return {0, entry.last};
    }
    // Uses of an expert, with 8 bits after the point, halved in 12 uses a slot, linear in between.
    void remember(Entry& entry) {
        auto& [last, uses] = history_[entry.key];
        const uint64_t half_life = 12 * entries_.size();
        uint64_t since = ++uses_ - last;
        for (; since >= half_life; since -= half_life) uses /= 2;
        uses = uses * (512 - 256 * since / half_life) / 512 + 256;
        last = uses_;
        uint64_t doubling = 256;  // four classes to a doubling, and the middle of the class
        while (256 + uses >= 2 * doubling) doubling *= 2;
        entry.weight = static_cast<int64_t>((256 + uses) / (doubling / 4) * 2 + 1) *
                       static_cast<int64_t>(doubling / 8);
        entry.round = round_;
    }
    // Rounds that the entry was not used in and how far off its layer is, by the entry's weight.
    int64_t age(const Entry& entry, ExpertKey wanted) const {
        const int32_t passed = wanted.layer - entry.key.layer;
        const int64_t missed = round_ - entry.round - (passed < 0);
        const int64_t ahead = passed < 0 ? -passed : layers - passed;
        return (missed * layers + ahead) * (int64_t{1} << 32) / entry.weight;
    }
    uint64_t count(int32_t layer) const {
        uint64_t sum = 0;
        for (const Entry& one : entries_) sum += one.there && one.key.layer == layer;
        return sum;
    }
    uint64_t quota(int32_t layer) const {
        return entries_.size() / layers +
               (static_cast<uint64_t>(layer) < entries_.size() % layers ? 1 : 0);
    }

    std::string name_;
    std::vector<Plain> rivals_;  // of aging-lru, which follows one of them
    std::vector<Entry> entries_;
    uint64_t clock_ = 0, floor_ = 0;
    std::map<ExpertKey, std::pair<uint64_t, uint64_t>> history_;
    uint64_t uses_ = 0;
    int64_t round_ = 1;
};

ExpertKey random_key(std::mt19937_64& random) {
    return {static_cast<int32_t>(random() % layers), static_cast<int32_t>(random() % experts)};
}

// One random event for both; returns the victim if it was one.
void event(Policy& policy, Plain& plain, std::vector<ExpertKey>& held, std::mt19937_64& random) {
    const auto slot = static_cast<uint32_t>(random() % held.size());
    const bool there = held[slot].layer >= 0;
    if (random() % 8 == 0) {
        policy.token_passed();
        plain.token_passed();
    }
    if (!there) {
        held[slot] = random_key(random);
        policy.inserted(slot, held[slot]);
        plain.inserted(slot, held[slot]);
    } else if (random() % 3 != 0) {
        policy.touched(slot, held[slot]);
        plain.touched(slot);
    } else {
        std::set<uint32_t> in_use;
        for (size_t i = random() % 4 * held.size() / 4; i > 0; --i) {
            in_use.insert(static_cast<uint32_t>(random() % held.size()));
        }
        const ExpertKey wanted = random_key(random);
        const int64_t victim =
            policy.victim([&](uint32_t one) { return in_use.count(one) == 0; }, wanted);
        const auto allowed = plain.victims(in_use, wanted);
        if (allowed.empty()) {
            CHECK(victim == -1);
            return;
        }
        REQUIRE(victim >= 0);
        CHECK(allowed.count(static_cast<uint32_t>(victim)) == 1);
        policy.removed(static_cast<uint32_t>(victim));
        plain.removed(static_cast<uint32_t>(victim));
        held[static_cast<size_t>(victim)] = {};
    }
}

// Misses of a policy in a stream of keys.
uint64_t misses(Policy& policy, uint32_t slots, const std::vector<ExpertKey>& stream) {
    std::map<ExpertKey, uint32_t> where;
    std::vector<ExpertKey> keys(slots);
    uint64_t count = 0;
    uint32_t used = 0;
    for (size_t i = 0; i < stream.size(); ++i) {
        if (i % layers == 0) policy.token_passed();
        const auto found = where.find(stream[i]);
        if (found != where.end()) {
            policy.touched(found->second, stream[i]);
            continue;
        }
        ++count;
        uint32_t slot = used;
        if (used < slots) {
            ++used;
        } else {
            slot = static_cast<uint32_t>(policy.victim([](uint32_t) { return true; }, stream[i]));
            policy.removed(slot);
            where.erase(keys[slot]);
        }
        keys[slot] = stream[i];
        where[stream[i]] = slot;
        policy.inserted(slot, stream[i]);
    }
    return count;
}

}  // namespace

TEST_CASE("every policy evicts as its plain description says") {
    for (const std::string& name : policy_names()) {
        for (uint32_t slots : {1u, 2u, 7u, 30u, 100u, 256u}) {
            CAPTURE(name);
            CAPTURE(slots);
            auto policy = make_policy(name, {slots, layers, experts, slots});
            REQUIRE(policy);
            Plain plain(name, slots);
            std::vector<ExpertKey> held(slots);
            std::mt19937_64 random(slots);
            const int events = slots > 50 ? 1500 : 4000;
            for (int i = 0; i < events; ++i) event(**policy, plain, held, random);
        }
    }
}

TEST_CASE("policies are repeatable, and random draws depend on the seed alone") {
    std::mt19937_64 random(1);
    std::vector<ExpertKey> stream;
    for (int i = 0; i < 5000; ++i) stream.push_back(random_key(random));
    for (const std::string& name : policy_names()) {
        CAPTURE(name);
        std::vector<uint64_t> counts;
        for (uint64_t seed : {1, 1, 2}) {
            counts.push_back(
                misses(**make_policy(name, {200, layers, experts, seed}), 200, stream));
        }
        CHECK(counts[0] == counts[1]);
        CHECK((counts[0] == counts[2]) == (name != "drawn-lru"));
    }
}

TEST_CASE("drawn-lru keeps most of a loop just above its size, in which lru always misses") {
    std::vector<ExpertKey> loop;
    for (int round = 0; round < 40; ++round) {
        for (int32_t i = 0; i < 204; ++i) loop.push_back({i % layers, i / layers});
    }
    const uint64_t lru = misses(**make_policy("lru", {200, layers, experts, 0}), 200, loop);
    const uint64_t aging = misses(**make_policy("drawn-lru", {200, layers, experts, 0}), 200, loop);
    CHECK(lru == loop.size());
    CHECK(aging < loop.size() / 2);
}

TEST_CASE("drawn-lru draws from its whole oldest class") {
    auto policy = *make_policy("drawn-lru", {100, layers, experts, 5});
    for (uint32_t slot = 0; slot < 100; ++slot) policy->inserted(slot, {0, 1});
    std::set<int64_t> drawn;
    for (int i = 0; i < 300; ++i) drawn.insert(policy->victim([](uint32_t) { return true; }, {}));
    const std::set<int64_t> oldest = {0, 1, 2, 3, 4, 5, 6, 7};
    CHECK(drawn == oldest);
    drawn.clear();  // the first draw differs from token to token
    for (int i = 0; i < 300; ++i) {
        policy->token_passed();
        drawn.insert(policy->victim([](uint32_t) { return true; }, {}));
    }
    CHECK(drawn == oldest);
}

TEST_CASE("uses keeps what is used often, also after an eviction, until it is used no more") {
    // Two favourites of layer 0 among experts used once each, far more than there are slots.
    const auto hits_of_favourites = [](const std::string& name) {
        Tier tier(*make_policy(name, {20, layers, experts, 0}), 20, layers, experts);
        int hits = 0;
        for (int32_t round = 0; round < 400; ++round) {
            for (int32_t layer = 0; layer < layers; ++layer) {
                const bool favourite = layer == 0 && round % 5 == 0;
                for (int32_t i = 0; i < 2; ++i) {
                    const ExpertKey key{layer, favourite ? i : 2 + (2 * round + i) % 98};
                    tier.begin();
                    if (tier.hit(key, true) >= 0) {
                        hits += favourite;
                    } else {
                        tier.place(key, true);
                    }
                }
            }
            tier.token_passed();
        }
        return hits;
    };
    CHECK(hits_of_favourites("lru") == 0);
    CHECK(hits_of_favourites("uses") > 140);  // of 160
}

TEST_CASE("uses evicts what waits longest for its next chance") {
    auto policy = *make_policy("uses", {layers, layers, experts, 0});
    for (int32_t layer = 0; layer < layers; ++layer) {
        policy->inserted(static_cast<uint32_t>(layer), {layer, 1});
    }
    policy->token_passed();
    policy->token_passed();  // all of them were passed over once, when layer 3 asks for a slot:
    std::vector<int64_t> order;
    for (int32_t i = 0; i < layers; ++i) {
        order.push_back(policy->victim([](uint32_t) { return true; }, {3, 2}));
        policy->removed(static_cast<uint32_t>(order.back()));
    }
    CHECK(order == std::vector<int64_t>{3, 2, 1, 0, 4});
}

TEST_CASE("aging-lru goes over to the rival that misses least, and back") {
    // One request again and again, its experts somewhat more than there are slots; then favourites
    // that change.
    std::vector<ExpertKey> request, repeated, changing;
    std::mt19937_64 random(7);
    const auto skewed = [&] {
        return static_cast<int32_t>(random() % 100 * (random() % 100) / 100);
    };
    for (int32_t i = 0; i < 1000; ++i) request.push_back({i % layers, skewed()});
    for (int round = 0; round < 20; ++round)
        repeated.insert(repeated.end(), request.begin(), request.end());
    for (int32_t i = 0; i < 20000; ++i) {
        const int32_t topic = i / 2500 * 37;
        changing.push_back({i % layers, (topic + skewed()) % experts});
    }
    const auto count = [](const char* name, const std::vector<ExpertKey>& stream) {
        return misses(**make_policy(name, {200, layers, experts, 0}), 200, stream);
    };
    std::vector<ExpertKey> both = repeated;
    both.insert(both.end(), changing.begin(), changing.end());
    CHECK(count("aging-lru", repeated) + 200 < count("uses", repeated));  // as slru
    CHECK(count("aging-lru", changing) + 200 < count("slru", changing));
    for (const char* rival : {"uses", "slru", "lru"}) {
        CAPTURE(rival);
        CHECK(count("aging-lru", both) < count(rival, both));
    }
    auto policy = *make_policy("aging-lru", {200, layers, experts, 0});
    misses(*policy, 200, both);
    CHECK(policy->report().find("slru 0") == std::string::npos);
    CHECK(policy->report().find("uses 0") == std::string::npos);
}

TEST_CASE("an unknown policy is refused with the known names") {
    auto policy = make_policy("clock", {4, 1, 1, 0});
    REQUIRE_FALSE(policy);
    CHECK(policy.error().code == Code::usage);
    CHECK(policy.error().message ==
          "unknown cache policy 'clock'; known: " + comma_list(policy_names()));
    CHECK(policy_names().front() == default_policy);
}

TEST_CASE("age ranks stay correct when the sequence is packed") {
    AgeRanks ranks(10);
    std::vector<uint32_t> order;
    std::mt19937_64 random(1);
    for (int i = 0; i < 2000; ++i) {
        const auto slot = static_cast<uint32_t>(random() % 10);
        const auto at = std::find(order.begin(), order.end(), slot);
        if (at != order.end()) {
            ranks.remove(slot);
            order.erase(at);
        }
        if (random() % 5 != 0) {
            ranks.push_newest(slot);
            order.push_back(slot);
        }
        REQUIRE(ranks.count() == order.size());
        for (uint32_t rank = 0; rank < order.size(); ++rank) {
            CHECK(ranks.at(rank) == order[rank]);
            CHECK(ranks.rank(order[rank]) == rank);
        }
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
namespace {
double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}
}  // namespace

TEST_CASE("an event costs at most 2 us with a slot for every expert of the large model") {
    constexpr uint32_t slots = 40 * 384;
    for (const std::string& name : policy_names()) {
        CAPTURE(name);
        auto policy = *make_policy(name, {slots, 40, 384, 1});
        std::vector<ExpertKey> keys(slots);
        std::mt19937 random(1);
        double best_us = std::numeric_limits<double>::infinity();
        for (uint32_t slot = 0; slot < slots; ++slot) {
            keys[slot] = {static_cast<int32_t>(slot % 40), 0};
            policy->inserted(slot, keys[slot]);
        }
        std::array<uint32_t, 6> in_use{};  // the demand's own experts
        const auto free = [&](uint32_t slot) {
            return std::find(in_use.begin(), in_use.end(), slot) == in_use.end();
        };
        for (int round = 0; round < 5; ++round) {
            constexpr int events = 40000;
            const double begin = cpu_seconds();
            for (int i = 0; i < events; i += 4) {
                const auto hit = static_cast<uint32_t>(random() % slots);
                policy->touched(hit, keys[hit]);
                in_use[static_cast<size_t>(i / 4) % in_use.size()] = hit;
                const auto out = static_cast<uint32_t>(policy->victim(free, keys[hit]));
                policy->removed(out);
                policy->inserted(out, keys[out]);
            }
            const double took_us = (cpu_seconds() - begin) * 1e6;
            best_us = std::min(best_us, took_us / events);
        }
        CAPTURE(best_us);
        CHECK(best_us < 2);
        MESSAGE(name, ": ", best_us, " us an event");
    }
}
#endif
