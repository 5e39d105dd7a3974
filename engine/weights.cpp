#include "engine/weights.h"

#include <algorithm>
#include <cstring>

#include "engine/model.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t window_bytes = 8u << 20;  // one read
constexpr uint32_t windows_in_flight = 4;
constexpr uint64_t gap_max = 64u << 10;  // reading over a gap this size beats a new read
constexpr uint64_t place_alignment = 256;

// One tensor to load, and where it goes.
struct Load {
    const TensorSpec* spec;
    const Tensor* tensor;
    std::byte* to;
    bool host;
};

// A part of a tensor inside a window.
struct Piece {
    uint32_t load;
    uint64_t from;  // in the tensor, a multiple of 4
    uint64_t at;    // in the window
    uint64_t bytes;
};

struct Window {
    const File* file;
    uint64_t offset;  // aligned
    uint32_t length;  // aligned
    uint32_t needed;
    std::vector<Piece> pieces;
};

void close_window(Window& window, uint64_t end) {
    const uint64_t size = window.file->size();
    const uint64_t aligned = round_up(end, window.file->alignment());
    window.length = static_cast<uint32_t>(aligned - window.offset);
    window.needed = static_cast<uint32_t>(std::min(aligned, size) - window.offset);
}

// `loads` in file order. A tensor is cut at multiples of 4 bytes, so that no value is in two
// pieces, wherever the tensor itself begins.
std::vector<Window> plan_windows(const std::vector<Load>& loads, const Checkpoint& checkpoint) {
    std::vector<Window> windows;
    uint64_t end = 0;  // of the payload in the last window
    for (uint32_t i = 0; i < loads.size(); i++) {
        const Tensor& tensor = *loads[i].tensor;
        const File* file = &checkpoint.shards()[tensor.shard];
        uint64_t done = 0;
        while (done < tensor.bytes) {
            const uint64_t begin = tensor.offset + done;
            const bool fits = !windows.empty() && windows.back().file == file && begin >= end &&
                              begin - end <= gap_max &&
                              begin + 4 <= windows.back().offset + window_bytes;
            if (!fits) {
                if (!windows.empty()) close_window(windows.back(), end);
                const uint64_t offset = round_down(begin, file->alignment());
                windows.push_back({file, offset, 0, 0, {}});
            }
            Window& window = windows.back();
            uint64_t room = window.offset + window_bytes - begin;
            if (room < tensor.bytes - done) room = round_down(room, 4);
            const uint64_t bytes = std::min(room, tensor.bytes - done);
            window.pieces.push_back({i, done, begin - window.offset, bytes});
            done += bytes;
            end = begin + bytes;
        }
    }
    if (!windows.empty()) close_window(windows.back(), end);
    return windows;
}

// Index of the first value that cannot be a weight, or -1.
int64_t first_bad(Storage storage, const std::byte* data, uint64_t bytes) {
    const auto* u8 = reinterpret_cast<const uint8_t*>(data);
    switch (storage) {
        case Storage::fp8:
            for (uint64_t i = 0; i < bytes; i++) {
                if ((u8[i] & 0x7f) == 0x7f) return static_cast<int64_t>(i);
            }
            return -1;
        case Storage::e8m0:
            for (uint64_t i = 0; i < bytes; i++) {
                if (u8[i] == 0xff) return static_cast<int64_t>(i);
            }
            return -1;
        case Storage::bf16:
            for (uint64_t i = 0; i + 2 <= bytes; i += 2) {
                uint16_t bits;
                std::memcpy(&bits, u8 + i, 2);
                if ((bits & 0x7f80) == 0x7f80) return static_cast<int64_t>(i / 2);
            }
            return -1;
        case Storage::f32:
            for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
                uint32_t bits;
                std::memcpy(&bits, u8 + i, 4);
                if ((bits & 0x7f800000u) == 0x7f800000u) return static_cast<int64_t>(i / 4);
            }
            return -1;
        case Storage::fp4:
            return -1;  // every nibble is a number
    }
    return -1;
}

uint64_t value_bytes(Storage storage) {
    return storage == Storage::f32 ? 4 : storage == Storage::bf16 ? 2 : 1;
}

Result<void> check_values(const Load& load, const Piece& piece, const std::byte* data) {
    const Storage storage = load.spec->storage;
    const int64_t bad = first_bad(storage, data, piece.bytes);
    if (bad < 0) return {};
    const uint64_t element = piece.from / value_bytes(storage) + static_cast<uint64_t>(bad);
    const char* what = storage == Storage::fp8    ? "is a NaN code"
                       : storage == Storage::e8m0 ? "is scale byte 255 (NaN)"
                                                  : "is not finite";
    return fail(Code::corrupt, cat("tensor ", load.tensor->name, ": element ", element, " ", what,
                                   "; the file is damaged, fetch it again"));
}

class Loader : public ReadClient {
 public:
    Loader(const std::vector<Load>& loads, std::vector<Window> windows, ReadRing& ring,
           Backend& backend, const LoadControl& control)
        : loads_(loads),
          windows_(std::move(windows)),
          ring_(ring),
          backend_(backend),
          control_(control) {}

    Result<void> run() {
        auto staging = PageBuffer::create(window_bytes * windows_in_flight, "reading weights");
        if (!staging) return tl::unexpected(staging.error());
        for (uint32_t slot = 0; slot < windows_in_flight; slot++) free_.push_back(slot);
        for (const Load& load : loads_) all_ += load.tensor->bytes;
        Result<void> result = pump(*staging);
        // The staging memory has to outlive every read into it.
        while (free_.size() < windows_in_flight) {
            auto reaped = ring_.reap(true);
            if (!reaped) return tl::unexpected(reaped.error());
            for (uint32_t slot : arrived_) free_.push_back(slot);
            arrived_.clear();
        }
        if (result) result = backend_.synchronize();
        return result;
    }

    void read_done(uint64_t tag, std::optional<Error> error) override {
        arrived_.push_back(static_cast<uint32_t>(tag));
        if (error && !error_) error_ = std::move(error);
    }

 private:
    Result<void> pump(const PageBuffer& staging) {
        size_t next = 0, finished = 0;
        while (finished < windows_.size()) {
            if (control_.cancel && control_.cancel->load(std::memory_order_relaxed)) {
                return fail(Code::interrupted, "loading was interrupted");
            }
            while (next < windows_.size() && !free_.empty() && ring_.free() > 0) {
                const uint32_t slot = free_.back();
                free_.pop_back();
                in_slot_[slot] = next;
                const Window& w = windows_[next++];
                ring_.queue({w.file, w.offset, staging.data() + slot * window_bytes, w.length,
                             w.needed, this, slot});
            }
            auto reaped = ring_.reap(true);
            if (!reaped) return tl::unexpected(reaped.error());
            if (error_) return tl::unexpected(*error_);
            std::vector<uint32_t> arrived;
            arrived.swap(arrived_);
            Result<void> placed;
            for (uint32_t slot : arrived) {
                const std::byte* data = staging.data() + slot * window_bytes;
                if (placed) placed = place(windows_[in_slot_[slot]], data);
                free_.push_back(slot);
                finished++;
            }
            if (!placed) return placed;
        }
        return {};
    }

    Result<void> place(const Window& window, const std::byte* data) {
        for (const Piece& piece : window.pieces) {
            const Load& load = loads_[piece.load];
            auto checked = check_values(load, piece, data + piece.at);
            if (!checked) return checked;
            if (load.host) {
                std::memcpy(load.to + piece.from, data + piece.at, piece.bytes);
            } else {
                backend_.upload(load.to + piece.from, data + piece.at, piece.bytes);
            }
            done_ += piece.bytes;
        }
        if (control_.progress) control_.progress(done_, all_);
        return {};
    }

    const std::vector<Load>& loads_;
    std::vector<Window> windows_;
    ReadRing& ring_;
    Backend& backend_;
    const LoadControl& control_;
    std::vector<uint32_t> free_, arrived_;
    std::array<size_t, windows_in_flight> in_slot_{};
    std::optional<Error> error_;
    uint64_t done_ = 0, all_ = 0;
};

uint64_t home_bytes(const std::vector<TensorSpec>& specs, Home home) {
    uint64_t bytes = 0;
    for (const TensorSpec& spec : specs) {
        if (spec.home == home) bytes += round_up(spec_bytes(spec), place_alignment);
    }
    return bytes;
}

void set_pointer(const TensorSpec& spec, const std::byte* data) {
    std::visit(
        [&](auto address) {
            using A = decltype(address);
            if constexpr (!std::is_same_v<A, std::monostate>) {
                *address = reinterpret_cast<std::remove_pointer_t<A>>(data);
            }
        },
        spec.address);
}

}  // namespace

uint64_t spec_bytes(const TensorSpec& spec) {
    uint64_t bytes = value_bytes(spec.storage);
    for (uint64_t size : spec.shape) bytes *= size;
    return bytes;
}
uint64_t dense_bytes(const std::vector<TensorSpec>& specs) {
    return home_bytes(specs, Home::dense);
}
uint64_t embedding_bytes(const std::vector<TensorSpec>& specs) {
    return home_bytes(specs, Home::embedding);
}
uint64_t load_staging_bytes() {
    return window_bytes * windows_in_flight;
}

Result<void> load_weights(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs,
                          ReadRing& ring, Backend& backend, std::span<std::byte> embedding,
                          const LoadControl& control) {
    auto dense = backend.allocate(dense_bytes(specs), "dense weights");
    if (!dense) return tl::unexpected(dense.error());
    std::vector<Load> loads;
    uint64_t dense_used = 0, embedding_used = 0;
    for (const TensorSpec& spec : specs) {
        if (spec.home != Home::dense && spec.home != Home::embedding) continue;
        const bool host = spec.home == Home::embedding;
        uint64_t& used = host ? embedding_used : dense_used;
        std::byte* to = (host ? embedding.data() : *dense) + used;
        used += round_up(spec_bytes(spec), place_alignment);
        loads.push_back({&spec, checkpoint.find(spec.name), to, host});
        set_pointer(spec, to);
    }
    std::sort(loads.begin(), loads.end(), [](const Load& a, const Load& b) {
        return std::pair(a.tensor->shard, a.tensor->offset) <
               std::pair(b.tensor->shard, b.tensor->offset);
    });
    return Loader(loads, plan_windows(loads, checkpoint), ring, backend, control).run();
}

}  // namespace sluice
