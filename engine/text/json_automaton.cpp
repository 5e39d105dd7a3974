#include "engine/text/json_automaton.h"

#include <algorithm>
#include <utility>

namespace sluice {

using namespace json;

namespace {

constexpr size_t frames_kept = 1024;                             // before the first collection
constexpr size_t branches_max = 4 * JsonAutomaton::configs_max;  // before equal ones are joined

uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 32;
}

uint64_t hash_of(const Spot& spot, uint64_t hash) {
    hash = mix(hash, uint64_t{spot.shape} << 32 | spot.node);
    hash = mix(hash, uint64_t{spot.count} << 32 | uint64_t{spot.space} << 8 | spot.depth);
    return mix(hash, static_cast<uint64_t>(spot.step) << 16 |
                         static_cast<uint64_t>(spot.text) << 8 |
                         static_cast<uint64_t>(spot.number));
}

}  // namespace

JsonAutomaton::JsonAutomaton(std::shared_ptr<const JsonGrammar> grammar)
    : grammar_(std::move(grammar)), collect_at_(frames_kept) {
    Spot spot;
    spot.shape = grammar_->root;
    configs_.push_back({spot, no_frame});
}

bool JsonAutomaton::accept(std::string_view bytes) {
    const size_t frames_before = frames();
    Configs all, from, to;
    for (const Config& config : configs_) {
        from.assign(1, config);
        for (size_t i = 0; i < bytes.size() && !from.empty(); ++i) {
            step(from, static_cast<uint8_t>(bytes[i]), to);
            from.swap(to);
        }
        all.insert(all.end(), from.begin(), from.end());
        if (all.size() >= branches_max) break;
    }
    if (all.empty()) {
        cut_frames(frames_before);
        return false;
    }
    reduce(all);
    configs_ = std::move(all);
    collect();
    return true;
}

bool JsonAutomaton::can_end() const {
    return std::any_of(configs_.begin(), configs_.end(),
                       [&](const Config& config) { return is_complete(config); });
}

bool JsonAutomaton::must_end() const {
    Configs to;
    return std::all_of(configs_.begin(), configs_.end(), [&](const Config& config) {
        if (!is_complete(config)) return false;
        if (config.spot.step != Step::number) return config.spot.step == Step::done;
        return !step_number(config, '0', to) && !step_number(config, '.', to) &&
               !step_number(config, 'e', to);
    });
}

void JsonAutomaton::step(const Configs& from, uint8_t byte, Configs& to) {
    to.clear();
    for (const Config& config : from) {
        step_one(config, byte, to);
        if (to.size() >= branches_max) break;
    }
    reduce(to);
}

void JsonAutomaton::step_one(Config config, uint8_t byte, Configs& to) {
    // What has no closing byte ends by the byte that follows it.
    if (config.spot.step == Step::number || config.spot.step == Step::literal) {
        const bool on = config.spot.step == Step::number ? step_number(config, byte, to)
                                                         : step_literal(config, byte, to);
        if (on || !ends_by_itself(config.spot)) return;
        config = pop(config.below);
    }
    switch (config.spot.step) {
        case Step::value:
            return begin(config.spot.shape, byte, nullptr, to);
        case Step::text:
            return step_text(config, byte, to);
        case Step::array_open:
        case Step::array_after:
        case Step::array_comma:
            return step_array(config, byte, to);
        case Step::number:
        case Step::literal:
        case Step::done:
            return;
        default:
            return step_object(config, byte, to);
    }
}

bool JsonAutomaton::is_complete(const Config& config) const {
    if (config.below != no_frame) return false;
    return config.spot.step == Step::done || ends_by_itself(config.spot);
}

bool JsonAutomaton::ends_by_itself(const Spot& spot) const {
    if (spot.step == Step::literal)
        return shape<Literals>(spot).texts.word(spot.node) != ByteTrie::none;
    if (spot.step != Step::number) return false;
    return spot.number == NumberState::zero || spot.number == NumberState::integer ||
           spot.number == NumberState::fraction || spot.number == NumberState::exponent;
}

uint32_t JsonAutomaton::push(const Config& config) {
    frames_.push_back({config.spot, config.below, hash(config)});
    return static_cast<uint32_t>(frames_.size() - 1);
}

Config JsonAutomaton::pop(uint32_t frame) const {
    if (frame != no_frame) return {frames_[frame].spot, frames_[frame].below};
    Config out;
    out.spot.step = Step::done;
    return out;
}

uint64_t JsonAutomaton::hash(const Config& config) const {
    return hash_of(config.spot, config.below == no_frame ? 1 : frames_[config.below].hash);
}

bool JsonAutomaton::same(const Config& a, const Config& b) const {
    if (!(a.spot == b.spot)) return false;
    uint32_t x = a.below, y = b.below;
    while (x != y) {
        if (x == no_frame || y == no_frame) return false;
        if (frames_[x].hash != frames_[y].hash || !(frames_[x].spot == frames_[y].spot))
            return false;
        x = frames_[x].below;
        y = frames_[y].below;
    }
    return true;
}

// Joins equal configs, each where the first of them is, and gives up those above the limit.
void JsonAutomaton::reduce(Configs& configs) const {
    if (configs.size() < 2) return;
    Configs kept;
    std::vector<uint64_t> hashes;
    for (const Config& config : configs) {
        if (kept.size() == configs_max) break;
        const uint64_t key = hash(config);
        bool known = false;
        for (size_t i = 0; i < kept.size() && !known; ++i)
            known = hashes[i] == key && same(kept[i], config);
        if (known) continue;
        kept.push_back(config);
        hashes.push_back(key);
    }
    configs = std::move(kept);
}

// Drops the frames that no config leads to, once they are many.
void JsonAutomaton::collect() {
    if (frames_.size() < collect_at_) return;
    std::vector<bool> used(frames_.size());
    for (const Config& config : configs_) {
        for (uint32_t at = config.below; at != no_frame && !used[at]; at = frames_[at].below)
            used[at] = true;
    }
    // A frame comes after those below it, so their new places are known.
    std::vector<uint32_t> place(frames_.size(), no_frame);
    uint32_t count = 0;
    const auto moved = [&](uint32_t frame) { return frame == no_frame ? no_frame : place[frame]; };
    for (size_t i = 0; i < frames_.size(); ++i) {
        if (!used[i]) continue;
        frames_[i].below = moved(frames_[i].below);
        place[i] = count;
        frames_[count++] = frames_[i];
    }
    frames_.resize(count);
    for (Config& config : configs_) config.below = moved(config.below);
    collect_at_ = std::max(frames_kept, size_t{2} * count);
}

}  // namespace sluice
