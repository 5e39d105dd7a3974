// What a sequence leaves behind between calls (deepseek-v41.md section 4, deepseek-v4.md section 4):
// window buffers (sliding window KV), compressed rows and index keys of the layers that own them, the
// pools of groups that are not complete, and the tokens. Which layer has what follows from
// ModelConfig::rows alone.
//
// A call that fails must leave no trace: begin() saves the few slots that the call will overwrite,
// rollback() puts them back. Rows beyond the counters need no undoing: they are written again
// before they are read. Engine thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/forward/suballocator.h"
#include "engine/model/config.h"
#include "kernels/backend.h"

namespace sluice {

// The pools of groups that are not complete: values and gates, of a compressor or of index keys.
// With overlap (ModelConfig::rows) the first `ratio` slots hold the group before, see CompressPool.
struct OpenPool {
    float* kv = nullptr;  // [slots][width * columns]
    float* gate = nullptr;
    int32_t slots = 0, columns = 0;  // of one slot; 0: none
};

// Device memory of one layer, not owned.
struct LayerState {
    bf16* window = nullptr;        // [window][head_dim], slot = position mod window
    bf16* saved_window = nullptr;  // copies of slots, for rollback()
    // Only of a layer that owns compressed rows:
    bf16* compressed = nullptr;  // [context / ratio][head_dim]
    bf16* keys = nullptr;        // [context / ratio][index_dim]; null without an indexer
    OpenPool open, index_open;
};

// What of a sequence the next token depends on. The numbers are those of snapshot files.
enum class StateKind : uint32_t {
    tokens = 0,  // the ids, in host memory; Engram's history follows from them
    window = 1,
    compressed = 2,
    keys = 3,
    open_kv = 4,
    open_gate = 5,
    // The group before the open one, and the same of index keys with a compressor of their own:
    previous_kv = 6,
    previous_gate = 7,
    index_open_kv = 8,
    index_open_gate = 9,
    index_previous_kv = 10,
    index_previous_gate = 11,
};

// Slots of an OpenPool that a state of some tokens needs.
struct OpenSlots {
    int32_t first = 0, count = 0;
};
// Of the open group, and (with overlap) of the group before it.
OpenSlots open_slots(const LayerRows& rows, int32_t tokens);
OpenSlots previous_slots(const LayerRows& rows, int32_t tokens);

// Some of it that lies together in device memory, not owned.
struct StatePart {
    StateKind kind;
    int32_t layer;
    void* device;
    uint64_t bytes;
};

class State {
 public:
    // Bytes of parts(tokens) and of the ids: what a snapshot holds besides its header.
    static uint64_t snapshot_bytes(const ModelConfig& config, int32_t tokens);
    // Device bytes for a context of `context` tokens, the copies for rollback() included.
    static uint64_t bytes(const ModelConfig& config, int32_t context);
    State(const ModelConfig& config, int32_t context, Backend& backend, std::byte* memory);

    void reset();
    int32_t position() const { return static_cast<int32_t>(tokens_.size()); }
    const std::vector<int32_t>& tokens() const { return tokens_; }
    int32_t context() const { return context_; }

    const LayerState& layer(int32_t layer) const { return layers_[layer]; }
    // The complete groups among the first `tokens` tokens, each one compressed row; and the tokens
    // of the open group.
    int32_t rows(int32_t layer, int32_t tokens) const { return tokens / config_->rows[layer].ratio; }
    int32_t open_rows(int32_t layer, int32_t tokens) const {
        return tokens % config_->rows[layer].ratio;
    }

    // The layer whose index keys were published last; -1: none. Only read with
    // IndexKeys::reference.
    int32_t published = -1;

    // `count` tokens are about to be fed: saves the slots they overwrite.
    void begin(int32_t count);
    void advance(std::span<const int32_t> ids);  // they were fed
    void rollback();                             // to the last begin()

    // Whether everything that continuing after the first `length` tokens needs is still there.
    bool can_cut(int32_t length) const;
    void cut(int32_t length);  // requires can_cut()

    // What the token after `tokens` tokens depends on, besides the ids and `published`: only rows
    // in use, and no part of 0 bytes. Its kinds, layers and sizes do not depend on context().
    // Requires tokens <= context(). The contents are those of now: for export, of position().
    std::vector<StatePart> parts(int32_t tokens) const;
    // Becomes the state after `ids`, which fit the context. `contents` are those of
    // parts(ids.size()), in the same order and of the same sizes. After an error (of the device)
    // the state is empty.
    Result<void> adopt(std::vector<int32_t> ids, int32_t published_layer,
                       std::span<const std::span<const std::byte>> contents);

 private:
    // Where all open pools lie, and a copy of them for rollback().
    struct OpenMemory {
        std::byte *live = nullptr, *saved = nullptr;
        uint64_t bytes = 0;
    };
    static uint64_t lay_out(const ModelConfig& config, int32_t context, Suballocator memory,
                            std::vector<LayerState>& layers, OpenMemory& open);
    static void lay_out_pools(const ModelConfig& config, Suballocator& memory,
                              std::vector<LayerState>& layers);
    static std::vector<StatePart> parts_of(const ModelConfig& config,
                                           std::span<const LayerState> layers, int32_t tokens);
    void copy_windows(bool save);
    // Pools change only when a group is completed; open slots beyond the counters do not matter.
    bool completes_group(int32_t first, int32_t end) const;

    const ModelConfig* config_;
    int32_t context_;
    Backend* backend_;
    std::vector<LayerState> layers_;
    OpenMemory open_;
    std::vector<int32_t> tokens_;
    bool saved_open_ = false;
    int32_t saved_position_ = 0, saved_count_ = 0, saved_published_ = -1;
};

}  // namespace sluice
