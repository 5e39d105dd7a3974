#include "engine/forward/state.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sluice {

uint64_t State::lay_out(const ModelConfig& c, int32_t context, Suballocator memory,
                        std::vector<LayerState>& layers) {
    layers.assign(c.layers, {});
    const uint64_t size = static_cast<uint64_t>(c.window) * c.head_dim;
    // All window buffers, then all their copies: the same slot of all layers is one strided copy.
    for (LayerState& layer : layers) memory.take(layer.window, size);
    for (LayerState& layer : layers) memory.take(layer.saved_window, size);
    for (int32_t owner : c.kv_sources) {
        LayerState& layer = layers[owner];
        const int32_t ratio = c.ratios[owner];
        const uint64_t rows = static_cast<uint64_t>(context / ratio);
        memory.take(layer.compressed, rows * c.head_dim);
        memory.take(layer.keys, rows * c.index_dim);
        if (ratio == 1) continue;
        const uint64_t open = static_cast<uint64_t>(ratio) * c.head_dim;
        for (float** part :
             {&layer.open_kv, &layer.open_gate, &layer.saved_kv, &layer.saved_gate}) {
            memory.take(*part, open);
        }
    }
    return memory.used();
}

uint64_t State::bytes(const ModelConfig& config, int32_t context) {
    std::vector<LayerState> layers;
    return lay_out(config, context, Suballocator(), layers);
}

State::State(const ModelConfig& config, int32_t context, Backend& backend, std::byte* memory)
    : config_(&config), context_(context), backend_(&backend) {
    lay_out(config, context, Suballocator(memory), layers_);
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

void State::copy_open(bool save) {
    for (int32_t owner : config_->kv_sources) {
        LayerState& layer = layers_[owner];
        if (!layer.open_kv) continue;
        const uint64_t bytes = sizeof(float) * config_->ratios[owner] * config_->head_dim;
        backend_->copy(save ? layer.saved_kv : layer.open_kv, save ? layer.open_kv : layer.saved_kv,
                       bytes);
        backend_->copy(save ? layer.saved_gate : layer.open_gate,
                       save ? layer.open_gate : layer.saved_gate, bytes);
    }
}

void State::begin(int32_t count) {
    saved_position_ = position();
    saved_count_ = count;
    saved_published_ = published;
    copy_windows(true);
    copy_open(true);
}

void State::advance(std::span<const int32_t> ids) {
    tokens_.insert(tokens_.end(), ids.begin(), ids.end());
}

void State::rollback() {
    copy_windows(false);
    copy_open(false);
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
    for (int32_t owner : config_->kv_sources) {
        // The tokens of an open group are gone once the group was completed.
        if (length % config_->ratios[owner] != 0) return false;
    }
    return true;
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
    for (int32_t owner : c.kv_sources) {
        const LayerState& own = layers[owner];
        const int32_t rows = tokens / c.ratios[owner], open = tokens % c.ratios[owner];
        add(StateKind::compressed, owner, own.compressed, rows, c.head_dim);
        add(StateKind::keys, owner, own.keys, rows, c.index_dim);
        add(StateKind::open_kv, owner, own.open_kv, open, c.head_dim);
        add(StateKind::open_gate, owner, own.open_gate, open, c.head_dim);
    }
    return parts;
}

std::vector<StatePart> State::parts(int32_t tokens) const {
    return parts_of(*config_, layers_, tokens);
}

uint64_t State::snapshot_bytes(const ModelConfig& config, int32_t tokens) {
    const std::vector<LayerState> layers(config.layers);
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
