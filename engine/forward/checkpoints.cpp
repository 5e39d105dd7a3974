#include "engine/forward/checkpoints.h"

#include <algorithm>
#include <cstring>
#include <tuple>

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

namespace {

// Rows of a pool, to `to`, from tokens `begin` to `end`: those before the chunk from the open slots,
// the others from the chunk. `chunk` null: no such rows.
Result<void> download_tokens(const OpenCopy& from, const float* open, const float* chunk,
                             int32_t begin, int32_t end, float* to, Backend& device) {
    const int64_t columns = from.open.columns;
    const size_t row = static_cast<size_t>(columns) * sizeof(float);
    const int32_t before = std::max(std::min(end, from.at.first) - begin, 0);
    if (before > 0) {
        const int32_t group = from.at.first / from.rows.ratio * from.rows.ratio;
        const int64_t slot = begin - group + (from.rows.overlap ? from.rows.ratio : 0);
        auto done = device.download(to, open + slot * columns, static_cast<size_t>(before) * row);
        if (!done) return done;
    }
    const int32_t first = begin + before;
    if (first >= end) return {};
    return device.download(to + before * columns, chunk + (first - from.at.first) * columns,
                           static_cast<size_t>(end - first) * row);
}

// As CompressPool does it to the gates of the chunk's own tokens.
Result<void> add_places(const OpenCopy& from, int32_t begin, int32_t end, float* gates,
                        Backend& device) {
    const int64_t columns = from.open.columns;
    std::vector<float> place(static_cast<size_t>(from.rows.ratio * columns));
    auto done = device.download(place.data(), from.place, place.size() * sizeof(float));
    if (!done) return done;
    for (int32_t token = std::max(begin, from.at.first); token < end; ++token) {
        const float* add = place.data() + token % from.rows.ratio * columns;
        float* gate = gates + (token - begin) * columns;
        for (int64_t i = 0; i < columns; ++i) gate[i] = gate[i] + add[i];
    }
    return {};
}

}  // namespace

Result<void> Checkpoints::copy_group(const OpenCopy& from, int32_t position, bool previous,
                                     Backend& device) {
    const int32_t ratio = from.rows.ratio, group = position / ratio * ratio;
    const int32_t begin = previous ? group - ratio : group;
    const int32_t end = previous ? group : position;
    const auto count = static_cast<size_t>((end - begin) * from.open.columns);
    StateKind kv = previous ? StateKind::previous_kv : StateKind::open_kv;
    StateKind gate = previous ? StateKind::previous_gate : StateKind::open_gate;
    if (from.index) {
        kv = previous ? StateKind::index_previous_kv : StateKind::index_open_kv;
        gate = previous ? StateKind::index_previous_gate : StateKind::index_open_gate;
    }
    std::vector<float> rows(count);
    for (const auto& [kind, open, chunk] :
         {std::tuple(kv, from.open.kv, from.kv), std::tuple(gate, from.open.gate, from.gate)}) {
        auto done = download_tokens(from, open, chunk, begin, end, rows.data(), device);
        if (done && kind == gate && from.place) {
            done = add_places(from, begin, end, rows.data(), device);
        }
        if (!done) return done;
        const auto to = add(position, kind, from.layer, count * sizeof(float));
        std::memcpy(to.data(), rows.data(), to.size());
    }
    return {};
}

Result<void> Checkpoints::copy_open(const OpenCopy& from, Backend& device) {
    for (int32_t position : positions_within(from.at)) {
        if (open_slots(from.rows, position).count > 0) {
            if (auto r = copy_group(from, position, false, device); !r) return r;
        }
        if (previous_slots(from.rows, position).count > 0) {
            if (auto r = copy_group(from, position, true, device); !r) return r;
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
