#include "engine/forward/checkpoints.h"

#include <algorithm>
#include <cstring>

namespace sluice {

void Checkpoints::set(std::vector<int32_t> positions) {
    std::ranges::sort(positions);
    const auto repeated = std::ranges::unique(positions);
    positions.erase(repeated.begin(), repeated.end());
    positions_ = std::move(positions);
    drop_all();
}

std::span<const int32_t> Checkpoints::positions_within(Positions at) const {
    const auto begin = std::ranges::upper_bound(positions_, at.first);
    return {begin, std::ranges::upper_bound(positions_, at.end())};
}

std::span<std::byte> Checkpoints::add(int32_t position, StateKind kind, int32_t layer,
                                      uint64_t bytes) {
    std::vector<Piece>& pieces = pieces_[position];
    pieces.push_back({kind, layer, std::vector<std::byte>(bytes)});
    return pieces.back().bytes;
}

Result<void> Checkpoints::copy_window(const ModelConfig& c, const LayerState& own, int32_t layer,
                                      Positions at, const bf16* keys, Backend& device) {
    const uint64_t row = static_cast<uint64_t>(c.head_dim) * sizeof(bf16);
    for (int32_t position : positions_within(at)) {
        const auto slots = static_cast<uint64_t>(std::min(position, c.window));
        const std::span<std::byte> to = add(position, StateKind::window, layer, slots * row);
        const int32_t oldest = position - c.window;  // the oldest token in the buffer, or negative
        if (at.first > 0 && oldest < at.first) {
            if (auto r = device.download(to.data(), own.window, to.size()); !r) return r;
        }
        const int32_t first = std::max(at.first, oldest);
        std::vector<std::byte> rows(static_cast<uint64_t>(position - first) * row);
        const bf16* from = keys + static_cast<int64_t>(first - at.first) * c.head_dim;
        if (auto r = device.download(rows.data(), from, rows.size()); !r) return r;
        for (int32_t token = first; token < position; ++token) {
            const auto slot = static_cast<uint64_t>(token % c.window);
            const auto number = static_cast<uint64_t>(token - first);
            std::memcpy(to.data() + slot * row, rows.data() + number * row, row);
        }
    }
    return {};
}

// A group holds two tokens at most, so an open one is the last token before the position.
Result<void> Checkpoints::copy_open(const ModelConfig& c, int32_t layer, Positions at,
                                    const float* kv, const float* gate, Backend& device) {
    const uint64_t row = static_cast<uint64_t>(c.head_dim) * sizeof(float);
    for (int32_t position : positions_within(at)) {
        if (position % c.ratios[layer] == 0) continue;
        const int64_t number = position - 1 - at.first;
        for (const auto& [kind, rows] :
             {std::pair(StateKind::open_kv, kv), std::pair(StateKind::open_gate, gate)}) {
            const std::span<std::byte> to = add(position, kind, layer, row);
            if (auto r = device.download(to.data(), rows + number * c.head_dim, row); !r) return r;
        }
    }
    return {};
}

std::vector<int32_t> Checkpoints::complete(int32_t end) const {
    std::vector<int32_t> positions;
    for (const auto& [position, pieces] : pieces_) {
        if (position <= end) positions.push_back(position);
    }
    return positions;
}

std::span<const std::byte> Checkpoints::copied(int32_t position, StateKind kind,
                                               int32_t layer) const {
    const auto found = pieces_.find(position);
    if (found == pieces_.end()) return {};
    for (const Piece& piece : found->second) {
        if (piece.kind == kind && piece.layer == layer) return piece.bytes;
    }
    return {};
}

void Checkpoints::drop(int32_t position) {
    pieces_.erase(position);
}

void Checkpoints::drop_all() {
    pieces_.clear();
}

}  // namespace sluice
