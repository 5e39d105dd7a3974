#include "cache/simulator.h"

#include <algorithm>
#include <set>

#include "cache/policy.h"
#include "cache/tier.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t never = UINT64_MAX;

// What one layer asks for: the experts of one token, or of all tokens of a prompt's chunk.
struct Demand {
    int32_t layer;
    bool prompt;
    bool last;     // of its forward pass
    size_t token;  // of the routes: the last one of its chunk
    std::vector<int32_t> experts;
    // In a chunk group: how many chunks it has, whether another one comes to this layer, and the
    // first and the last demand of the group.
    uint32_t chunks = 1;
    bool more = false, begins = false, ends = false;
};

void append_ids(std::span<const int32_t> row, std::vector<int32_t>& out) {
    for (int32_t expert : row) {
        if (expert < 0) return;
        out.push_back(expert);
    }
}

std::span<const int32_t> row_of(const std::vector<int32_t>& ids, const RouteFileHeader& header,
                                int32_t layer) {
    const auto top_k = static_cast<size_t>(header.top_k);
    return std::span<const int32_t>(ids).subspan(static_cast<size_t>(layer) * top_k, top_k);
}

struct Chunk {
    size_t first, last;  // tokens
};

Demand demand_of(const RouteFile& routes, const Chunk& chunk, int32_t layer) {
    const bool prompt = routes.tokens[chunk.last].prompt;
    Demand demand{layer, prompt, layer + 1 == routes.header.layers, chunk.last, {}};
    for (size_t i = chunk.first; i <= chunk.last; ++i) {
        append_ids(row_of(routes.tokens[i].chosen, routes.header, layer), demand.experts);
    }
    if (prompt) {
        std::sort(demand.experts.begin(), demand.experts.end());
        demand.experts.erase(std::unique(demand.experts.begin(), demand.experts.end()),
                             demand.experts.end());
    }
    return demand;
}

// The forward passes of a recording, layer by layer; the chunks of a group go through each layer
// one after another. A chunk or a group that the recording cuts short ends with it; decode steps
// are never joined.
std::vector<Demand> demands_of(const RouteFile& routes) {
    std::vector<Demand> demands;
    std::vector<Chunk> chunks;
    size_t first = 0;
    for (size_t token = 0; token < routes.tokens.size(); ++token) {
        const RecordedToken& recorded = routes.tokens[token];
        const bool over = token + 1 == routes.tokens.size() || !routes.tokens[token + 1].prompt;
        if (recorded.prompt && !recorded.chunk_end && !over) continue;
        chunks.push_back({first, token});
        first = token + 1;
        if (recorded.group_continues && !over) continue;
        const auto count = static_cast<uint32_t>(chunks.size());
        const size_t begin = demands.size();
        for (int32_t layer = 0; layer < routes.header.layers; ++layer) {
            for (const Chunk& chunk : chunks) {
                demands.push_back(demand_of(routes, chunk, layer));
                demands.back().chunks = count;
                demands.back().more = chunk.last != token;
            }
        }
        demands[begin].begins = demands.back().ends = count > 1;
        chunks.clear();
    }
    return demands;
}

// The policy that knows the future: evicts the expert whose next use is the furthest away.
class Belady final : public Policy {
 public:
    Belady(const std::vector<Demand>& demands, const RouteFileHeader& header, uint32_t slots,
           const size_t& now)
        : next_use_(slots, never), experts_(static_cast<size_t>(header.experts)), now_(now) {
        uses_.resize(static_cast<size_t>(header.layers) * experts_);
        for (size_t i = 0; i < demands.size(); ++i) {
            if (demands[i].prompt) continue;  // a prompt keeps no expert in the cache
            for (int32_t expert : demands[i].experts) {
                uses_[index({demands[i].layer, expert})].push_back(i);
            }
        }
    }
    void inserted(uint32_t slot, ExpertKey key) override {
        const std::vector<uint64_t>& uses = uses_[index(key)];
        const auto next = std::upper_bound(uses.begin(), uses.end(), now_);
        next_use_[slot] = next == uses.end() ? never : *next;
        order_.insert({next_use_[slot], slot});
    }
    void touched(uint32_t slot, ExpertKey key) override {
        removed(slot);
        inserted(slot, key);
    }
    void removed(uint32_t slot) override { order_.erase({next_use_[slot], slot}); }
    void token_passed() override {}
    int64_t victim(const std::function<bool(uint32_t)>& evictable, ExpertKey) override {
        for (auto last = order_.rbegin(); last != order_.rend(); ++last) {
            if (evictable(last->second)) return last->second;
        }
        return -1;
    }

 private:
    size_t index(ExpertKey key) const {
        return static_cast<size_t>(key.layer) * experts_ + static_cast<size_t>(key.expert);
    }
    std::vector<std::vector<uint64_t>> uses_;  // [layers * experts]: ascending demand numbers
    std::vector<uint64_t> next_use_;           // [slots]
    std::set<std::pair<uint64_t, uint32_t>> order_;
    size_t experts_;
    const size_t& now_;
};

// Prefetches from an idle drive that always finishes in time.
class Prefetched {
 public:
    bool take(int32_t expert) {
        const auto found = std::find(experts_.begin(), experts_.end(), expert);
        if (found == experts_.end()) return false;
        experts_.erase(found);
        return true;
    }
    void follow(const std::vector<int32_t>& guesses, int32_t layer, const Tier& tier,
                uint32_t count) {
        for (int32_t expert : guesses) {
            if (experts_.size() == count) return;
            if (tier.find({layer, expert}) < 0) experts_.push_back(expert);
        }
    }
    size_t clear() {
        const size_t wasted = experts_.size();
        experts_.clear();
        return wasted;
    }
    size_t size() const { return experts_.size(); }

 private:
    std::vector<int32_t> experts_;  // for the layer to come
};

class Simulation {
 public:
    Simulation(const RouteFile& routes, const SimulateOptions& options, Tier tier,
               std::unique_ptr<Predictor> predictor)
        : routes_(routes),
          options_(options),
          tier_(std::move(tier)),
          predictor_(std::move(predictor)) {}

    void step(const Demand& demand) {
        if (demand.begins) stats_.evictions += tier_.lend();
        look_up(demand);
        if (!demand.more) kept_.clear();
        for (int32_t expert : missing_) find_room(demand, expert);
        stats_.prefetch_wasted += prefetched_.clear();
        if (!demand.prompt) predict(demand);
        if (demand.ends) {
            tier_.take_back();
            stats_.chunks_grouped += demand.chunks;
            for (uint32_t chunk = 0; chunk < demand.chunks; ++chunk) tier_.token_passed();
        } else if (demand.last && demand.chunks == 1) {
            tier_.token_passed();
            if (!demand.prompt) predictor_->token_passed();
        }
    }
    const CacheStats& stats() const { return stats_; }

 private:
    void look_up(const Demand& demand) {
        tier_.begin();
        missing_.clear();
        for (int32_t expert : demand.experts) {
            const bool cached = tier_.hit({demand.layer, expert}, !demand.prompt) >= 0;
            const bool here = cached || kept_.contains(expert);
            const bool guessed = !here && prefetched_.take(expert);
            if (!cached) missing_.push_back(expert);
            if (guessed) ++stats_.prefetch_used;
            const bool hit = here || guessed;
            ++(demand.prompt ? stats_.prompt_asked : stats_.asked);
            if (demand.prompt) {
                if (hit) ++stats_.prompt_hits;
            } else {
                ++(hit ? stats_.hits : stats_.misses);
            }
            if (!hit) stats_.bytes_demand += routes_.header.expert_bytes;
        }
    }
    // As in the live cache: an entry, or else a transit slot until the last chunk has passed.
    void find_room(const Demand& demand, int32_t expert) {
        const Tier::Placed placed = tier_.place({demand.layer, expert}, !demand.prompt);
        if (placed.evicted) ++stats_.evictions;
        if (placed.entry >= 0) {
            kept_.erase(expert);
        } else if (demand.more && kept_.size() < tier_.lent().size()) {
            kept_.insert(expert);
        }
    }
    // Guesses are made after each layer for the next one, and judged against its routes.
    void predict(const Demand& demand) {
        const auto top_k = static_cast<size_t>(routes_.header.top_k);
        std::vector<int32_t> own_guesses;
        append_ids(row_of(routes_.tokens[demand.token].guesses, routes_.header, demand.layer),
                   own_guesses);
        predictor_->predict({demand.layer, demand.experts, own_guesses}, top_k, guesses_);
        if (demand.last) return;
        const auto next =
            row_of(routes_.tokens[demand.token].chosen, routes_.header, demand.layer + 1);
        stats_.guesses += guesses_.size();
        for (int32_t guess : guesses_) {
            if (std::find(next.begin(), next.end(), guess) != next.end()) ++stats_.guesses_right;
        }
        prefetched_.follow(guesses_, demand.layer + 1, tier_, options_.prefetch);
        stats_.prefetch_started += prefetched_.size();
        stats_.bytes_prefetch += prefetched_.size() * routes_.header.expert_bytes;
    }

    const RouteFile& routes_;
    const SimulateOptions& options_;
    Tier tier_;
    std::unique_ptr<Predictor> predictor_;
    Prefetched prefetched_;
    std::vector<int32_t> missing_, guesses_;
    std::set<int32_t> kept_;  // of the layer
    CacheStats stats_;
};

}  // namespace

Result<CacheStats> simulate(const RouteFile& routes, const SimulateOptions& options,
                            std::string* report) {
    const RouteFileHeader& header = routes.header;
    const auto all = static_cast<uint64_t>(header.layers) * static_cast<uint64_t>(header.experts);
    if (options.slots > all) {
        return fail(Code::usage,
                    cat("--cache-slots ", options.slots, ": the model has only ", all, " experts"));
    }
    const std::vector<Demand> demands = demands_of(routes);
    size_t now = 0;
    std::unique_ptr<Policy> policy;
    if (options.policy == "belady") {
        policy = std::make_unique<Belady>(demands, header, options.slots, now);
    } else {
        auto made = make_policy(options.policy,
                                {options.slots, header.layers, header.experts, options.seed});
        if (!made) {
            return fail(made.error().code, made.error().message + ", belady (simulator only)");
        }
        policy = std::move(*made);
    }
    auto predictor = make_predictor(options.predictor, header.layers);
    if (!predictor) return tl::unexpected<Error>(predictor.error());
    const Policy& used = *policy;
    Simulation simulation(routes, options,
                          Tier(std::move(policy), options.slots, header.layers, header.experts),
                          std::move(*predictor));
    for (; now < demands.size(); ++now) simulation.step(demands[now]);
    if (report != nullptr) *report = used.report();
    return simulation.stats();
}

}  // namespace sluice
