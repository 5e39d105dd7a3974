#include "cache/device_experts.h"

#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t alignment = 256;

// Where the six tensors of an expert lie in a device slot; all experts have the same shapes.
// Returns the bytes of a slot.
uint64_t lay_out(const ExpertMap& map, uint64_t (&offset)[expert_parts],
                 uint64_t (&bytes)[expert_parts]) {
    uint64_t at = 0;
    for (int part = 0; part < expert_parts; ++part) {
        bytes[part] = map.range({0, 0}, static_cast<ExpertPart>(part)).length;
        offset[part] = at;
        at = round_up(at + bytes[part], alignment);
    }
    return at;
}

}  // namespace

uint64_t DeviceExperts::slot_bytes(const ExpertMap& map) {
    uint64_t offset[expert_parts], bytes[expert_parts];
    return lay_out(map, offset, bytes);
}

DeviceExperts::DeviceExperts(const DeviceExpertsOptions& options, const ExpertMap& map,
                             Backend& backend, std::unique_ptr<Policy> policy)
    : map_(map),
      backend_(backend),
      tier_(std::move(policy), options.cache_slots, map.layers(), map.experts()) {}

Result<std::unique_ptr<DeviceExperts>> DeviceExperts::create(const DeviceExpertsOptions& options,
                                                             const ExpertMap& map, Backend& backend,
                                                             int32_t rows_w1, int32_t cols_w1) {
    if (options.transit_slots < 2) return fail(Code::usage, "VRAM needs at least 2 transit slots");
    auto policy = make_policy(options.policy,
                              {options.cache_slots, map.layers(), map.experts(), options.seed});
    if (!policy) return tl::unexpected(policy.error());
    auto tier = std::unique_ptr<DeviceExperts>(
        new DeviceExperts(options, map, backend, std::move(*policy)));
    tier->inner_ = rows_w1;
    tier->dim_ = cols_w1;
    uint64_t offset[expert_parts], bytes[expert_parts];
    const uint64_t slot = lay_out(map, offset, bytes);
    for (int part = 0; part < expert_parts; ++part)
        tier->parts_[part] = {offset[part], bytes[part]};
    const uint32_t count = options.cache_slots + options.transit_slots;
    auto memory = backend.allocate(slot * count, cat(count, " expert slots"));
    if (!memory) return tl::unexpected(memory.error());
    tier->slots_.resize(count);
    tier->handed_.reserve(count);
    tier->placed_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) tier->slots_[i].memory = *memory + i * slot;
    if (options.poison) tier->poison_.assign(slot, std::byte{0xff});
    return tier;
}

DeviceExperts::Slot* DeviceExperts::find(ExpertKey key) {
    if (const int64_t entry = tier_.find(key); entry >= 0)
        return &slots_[static_cast<size_t>(entry)];
    for (size_t i = tier_.entries(); i < slots_.size(); ++i) {
        if (slots_[i].key == key && slots_[i].in_use) return &slots_[i];
    }
    return nullptr;
}

void DeviceExperts::hand_out(uint32_t slot) {
    if (slots_[slot].in_use) return;
    slots_[slot].in_use = true;
    handed_.push_back(slot);
}

// The entries of a demand that was given up before their upload hold nothing.
void DeviceExperts::drop_unfilled() {
    for (ExpertKey key : placed_) {
        const int64_t entry = tier_.find(key);
        if (entry >= 0 && slots_[static_cast<size_t>(entry)].key != key) tier_.remove(entry);
    }
    placed_.clear();
}

// Ordered after the compute that last read the slot.
void DeviceExperts::poison(const Slot& slot) {
    if (poison_.empty()) return;
    backend_.uploads_after_compute(slot.last_use);
    backend_.upload_beside(slot.memory, poison_.data(), poison_.size());
}

void DeviceExperts::begin(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
                          std::vector<int32_t>& missing) {
    drop_unfilled();
    tier_.begin();
    missing.clear();
    const bool decode = kind == DemandKind::decode;
    for (int32_t expert : experts) {
        const int64_t entry = tier_.hit({layer, expert}, decode);
        ++(decode ? stats_.asked : stats_.prompt_asked);
        if (entry < 0) {
            missing.push_back(expert);
            stats_.misses += decode;
            continue;
        }
        ++(decode ? stats_.hits : stats_.prompt_hits);
        hand_out(static_cast<uint32_t>(entry));
    }
    if (tier_.entries() == 0) return;
    for (int32_t expert : missing) {
        const auto placed = tier_.place({layer, expert}, decode);
        stats_.evictions += placed.evicted;
        if (placed.entry < 0) continue;
        slots_[static_cast<size_t>(placed.entry)].key = {};
        poison(slots_[static_cast<size_t>(placed.entry)]);
        placed_.push_back({layer, expert});
    }
}

Result<ExpertWeights> DeviceExperts::weights(ExpertKey key) const {
    const Slot* slot = const_cast<DeviceExperts*>(this)->find(key);
    if (!slot || slot->key != key) {
        return fail(Code::device, cat("expert ", key.expert, " of layer ", key.layer,
                                      " is not in its VRAM slot"));
    }
    const auto part = [&](ExpertPart which) {
        return reinterpret_cast<const uint8_t*>(slot->memory + parts_[which].offset);
    };
    return ExpertWeights{.w1 = {part(w1_codes), part(w1_scales), inner_, dim_},
                         .w2 = {part(w2_codes), part(w2_scales), dim_, inner_},
                         .w3 = {part(w3_codes), part(w3_scales), inner_, dim_}};
}

Result<void> DeviceExperts::upload(ExpertKey key, const std::byte* host) {
    int64_t at = tier_.find(key);
    if (at < 0) {
        at = tier_.entries() + transit_next_;
        transit_next_ = (transit_next_ + 1) % transit_slots();
        if (slots_[static_cast<size_t>(at)].in_use) {
            return fail(Code::device,
                        "a transit slot in VRAM was needed again before its use was marked");
        }
    }
    Slot* slot = &slots_[static_cast<size_t>(at)];
    hand_out(static_cast<uint32_t>(at));
    backend_.uploads_after_compute(slot->last_use);
    slot->key = key;
    const auto& starts = map_.plan(key).starts;
    for (int part = 0; part < expert_parts;) {  // parts adjacent in both places are one copy
        int end = part + 1;
        uint64_t bytes = parts_[part].bytes;
        while (end < expert_parts && starts[end] == starts[part] + bytes &&
               parts_[end].offset == parts_[part].offset + bytes) {
            bytes += parts_[end++].bytes;
        }
        backend_.upload_beside(slot->memory + parts_[part].offset, host + starts[part], bytes);
        part = end;
    }
    return {};
}

uint64_t DeviceExperts::flush() {
    const uint64_t mark = backend_.mark_uploads();
    backend_.compute_after_uploads(mark);
    return mark;
}

void DeviceExperts::used() {
    const uint64_t mark = backend_.mark_compute();
    for (uint32_t slot : handed_) {
        slots_[slot].in_use = false;
        slots_[slot].last_use = mark;
    }
    handed_.clear();
}

}  // namespace sluice
