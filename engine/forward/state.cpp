#include "engine/forward/state.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sluice {

OpenSlots open_slots(const LayerRows& rows, int32_t tokens) {
    if (rows.ratio < 2) return {};
    return {rows.overlap ? rows.ratio : 0, tokens % rows.ratio};
}

OpenSlots previous_slots(const LayerRows& rows, int32_t tokens) {
    if (!rows.overlap || tokens < rows.ratio) return {};
    return {0, rows.ratio};
}

void State::lay_out_pools(const ModelConfig& c, Suballocator& memory,
                          std::vector<LayerState>& layers) {
    for (int32_t owner = 0; owner < c.layers; ++owner) {
        if (!c.owns_rows(owner)) continue;
        LayerState& layer = layers[owner];
        const int32_t slots = c.open_slots(owner), width = c.pool_width(owner);
        const bool index = c.has_indexer(owner) && c.arithmetic.index_compressor;
        for (auto [pool, dim] : {std::pair(&layer.open, c.head_dim),
                                 std::pair(&layer.index_open, index ? c.index_dim : 0)}) {
            if (slots == 0 || dim == 0) continue;
            pool->slots = slots;
            pool->columns = width * dim;
            const uint64_t size = static_cast<uint64_t>(slots) * pool->columns;
            memory.take(pool->kv, size);
            memory.take(pool->gate, size);
        }
    }
}

uint64_t State::lay_out(const ModelConfig& c, int32_t context, Suballocator memory,
                        std::vector<LayerState>& layers, OpenMemory& open) {
    layers.assign(c.layers, {});
    const uint64_t size = static_cast<uint64_t>(c.window) * c.head_dim;
    // All window buffers, then all their copies: the same slot of all layers is one strided copy.
    for (LayerState& layer : layers) memory.take(layer.window, size);
    for (LayerState& layer : layers) memory.take(layer.saved_window, size);
    for (int32_t owner = 0; owner < c.layers; ++owner) {
        if (!c.owns_rows(owner)) continue;
        LayerState& layer = layers[owner];
        const uint64_t rows = static_cast<uint64_t>(context / c.rows[owner].ratio);
        memory.take(layer.compressed, rows * c.head_dim);
        if (c.has_indexer(owner)) memory.take(layer.keys, rows * c.index_dim);
    }
    // All pools side by side: they are saved in one copy.
    std::vector<LayerState> unplaced(layers);
    Suballocator measure;
    lay_out_pools(c, measure, unplaced);
    open.bytes = measure.used();
    std::byte* live = nullptr;
    memory.take(live, open.bytes);
    memory.take(open.saved, open.bytes);
    open.live = live;
    Suballocator pools(live);
    lay_out_pools(c, pools, layers);
    return memory.used();
}

uint64_t State::bytes(const ModelConfig& config, int32_t context) {
    std::vector<LayerState> layers;
    OpenMemory open;
    return lay_out(config, context, Suballocator(), layers, open);
}

State::State(const ModelConfig& config, int32_t context, Backend& backend, std::byte* memory)
    : config_(&config), context_(context), backend_(&backend) {
    lay_out(config, context, Suballocator(memory), layers_, open_);
    reset();
}

void State::reset() {
    const uint64_t size = static_cast<uint64_t>(config_->window) * config_->head_dim * sizeof(bf16);
    for (LayerState& layer : layers_) backend_->fill_zero(layer.window, size);
    tokens_.clear();
    published = -1;
}

// The slots that the tokens of a call take: the whole window buffer, or one or two runs of slots.
void State::copy_windows(bool save) {
    const int32_t window = config_->window;
    const int32_t count = std::min(saved_count_, window);
    const int32_t first = saved_position_ % window;
    const int32_t run = std::min(count, window - first);
    const uint64_t row = static_cast<uint64_t>(config_->head_dim);
    bf16* to = save ? layers_[0].saved_window : layers_[0].window;
    const bf16* from = save ? layers_[0].window : layers_[0].saved_window;
    const size_t pitch =
        layers_.size() < 2 ? 0 : (layers_[1].window - layers_[0].window) * sizeof(bf16);
    const auto copy = [&](int32_t slot, int32_t rows) {
        const uint64_t at = slot * row, bytes = rows * row * sizeof(bf16);
        const size_t step = std::max<size_t>(pitch, bytes);
        backend_->copy_rows(to + at, step, from + at, step, bytes, layers_.size());
    };
    copy(first, run);
    if (count > run) copy(0, count - run);
}

bool State::completes_group(int32_t first, int32_t end) const {
    return std::ranges::any_of(config_->rows, [&](const LayerRows& rows) {
        return rows.ratio > 1 && first / rows.ratio != end / rows.ratio;
    });
}

void State::begin(int32_t count) {
    saved_position_ = position();
    saved_count_ = count;
    saved_published_ = published;
    copy_windows(true);
    saved_open_ = open_.bytes > 0 && completes_group(position(), position() + count);
    if (saved_open_) backend_->copy(open_.saved, open_.live, open_.bytes);
}

void State::advance(std::span<const int32_t> ids) {
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
}

void State::rollback() {
    copy_windows(false);
    if (saved_open_) backend_->copy(open_.live, open_.saved, open_.bytes);
    tokens_.resize(saved_position_);
    published = saved_published_;
}

bool State::can_cut(int32_t length) const {
    const int32_t position = this->position();
    if (length == position || length == 0) return true;
    if (length < 0 || length > position) return false;
    // The next query looks back window - 1 tokens, whose slots later tokens may have taken.
    const int32_t oldest_needed = std::max(length - config_->window + 1, 0);
    const int32_t oldest_kept = std::max(position - config_->window, 0);
    if (oldest_needed < oldest_kept) return false;
    // An open group has all of its tokens until it is completed. Then only a border between groups
    // needs none of them; with overlap it needs those of the group before it.
    return std::ranges::all_of(config_->rows, [&](const LayerRows& rows) {
        if (rows.ratio < 2 || length / rows.ratio == position / rows.ratio) return true;
        return !rows.overlap && length % rows.ratio == 0;
    });
}

void State::cut(int32_t length) {
    if (length == 0) return reset();
    tokens_.resize(length);
}

std::vector<StatePart> State::parts_of(const ModelConfig& c, std::span<const LayerState> layers,
                                       int32_t tokens) {
    std::vector<StatePart> parts;
    const auto add = [&](StateKind kind, int32_t layer, auto* device, int32_t rows, int32_t width) {
        const uint64_t bytes =
            uint64_t{sizeof(*device)} * static_cast<uint64_t>(rows) * static_cast<uint64_t>(width);
        if (bytes > 0) parts.push_back({kind, layer, device, bytes});
    };
    for (int32_t layer = 0; layer < c.layers; ++layer) {
        const int32_t slots = std::min(tokens, c.window);
        add(StateKind::window, layer, layers[layer].window, slots, c.head_dim);
    }
    const auto add_pool = [&](StateKind kv, StateKind gate, int32_t layer, const OpenPool& pool,
                              OpenSlots slots) {
        const int64_t skip = int64_t{slots.first} * pool.columns;
        const auto from = [&](float* data) { return data ? data + skip : nullptr; };
        add(kv, layer, from(pool.kv), slots.count, pool.columns);
        add(gate, layer, from(pool.gate), slots.count, pool.columns);
    };
    for (int32_t owner = 0; owner < c.layers; ++owner) {
        if (!c.owns_rows(owner)) continue;
        const LayerState& own = layers[owner];
        const LayerRows& rows = c.rows[owner];
        const int32_t count = tokens / rows.ratio;
        add(StateKind::compressed, owner, own.compressed, count, c.head_dim);
        if (c.has_indexer(owner)) add(StateKind::keys, owner, own.keys, count, c.index_dim);
        const OpenSlots open = open_slots(rows, tokens), previous = previous_slots(rows, tokens);
        add_pool(StateKind::previous_kv, StateKind::previous_gate, owner, own.open, previous);
        add_pool(StateKind::open_kv, StateKind::open_gate, owner, own.open, open);
        add_pool(StateKind::index_previous_kv, StateKind::index_previous_gate, owner,
                 own.index_open, previous);
        add_pool(StateKind::index_open_kv, StateKind::index_open_gate, owner, own.index_open, open);
    }
    return parts;
}

std::vector<StatePart> State::parts(int32_t tokens) const {
    return parts_of(*config_, layers_, tokens);
}

uint64_t State::snapshot_bytes(const ModelConfig& config, int32_t tokens) {
    std::vector<LayerState> layers(config.layers);
    Suballocator unplaced;
    lay_out_pools(config, unplaced, layers);
    uint64_t bytes = static_cast<uint64_t>(tokens) * sizeof(int32_t);
    for (const StatePart& part : parts_of(config, layers, tokens)) bytes += part.bytes;
    return bytes;
}

Result<void> State::adopt(std::vector<int32_t> ids, int32_t published_layer,
                          std::span<const std::span<const std::byte>> contents) {
    reset();
    const std::vector<StatePart> parts = this->parts(static_cast<int32_t>(ids.size()));
    assert(parts.size() == contents.size());
    for (size_t i = 0; i < parts.size(); ++i) {
        assert(parts[i].bytes == contents[i].size());
        backend_->upload(parts[i].device, contents[i].data(), contents[i].size());
    }
    if (auto done = backend_->synchronize(); !done) {
        reset();
        return done;
    }
    tokens_ = std::move(ids);
    published = published_layer;
    return {};
}

}  // namespace sluice
