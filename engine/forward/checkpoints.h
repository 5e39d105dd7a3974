// The states that a prompt passes on its way, at positions inside a chunk as well as at its end.
//
// Compressed rows and index keys are only appended: those of an earlier position are the first of
// the present ones. What later tokens overwrite, window slots and rows of an open group, is copied
// to host memory while a layer runs, from what its chunk computed for every token. So a checkpoint
// changes neither chunks nor groups nor reads. It costs one window buffer per layer, in host memory
// and over the link. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "engine/forward/layer_context.h"
#include "engine/forward/state.h"
#include "engine/model/config.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

// One pool of a layer, and the chunk that is about to enter it.
struct OpenCopy {
    int32_t layer;
    const LayerRows& rows;
    Positions at;
    const OpenPool& open;
    const float *kv, *gate, *place;  // of PoolInputs and CompressScratch
    bool index;                      // of index keys
};

class Checkpoints {
 public:
    // Tokens from the start of the sequence, in any order. Drops what was copied.
    void set(std::vector<int32_t> positions);
    // Whether the tokens `at` reach one: at.first < position <= at.end().
    bool within(Positions at) const { return !positions_within(at).empty(); }

    // Between project() and attend() of a layer: `keys` [n][head_dim] are those of its chunk, and
    // the window buffer holds the tokens before it (or, if n is 1, also this one).
    Result<void> copy_window(const ModelConfig& config, const LayerState& own, int32_t layer,
                             Positions at, const bf16* keys, Backend& device);
    // Between project_pool() and pool_groups(), of a pool whose ratio is not 1: `open` holds what the
    // tokens before the chunk left, `kv` and `gate` [n][columns] are those of its tokens.
    Result<void> copy_open(const OpenCopy& from, Backend& device);

    // Positions up to `end` of which everything was copied, ascending. Requires every layer of the
    // passes up to there to be done.
    std::vector<int32_t> complete(int32_t end) const;
    // What was copied at a position, of parts(position); empty for kinds that are not copied.
    std::span<const std::byte> copied(int32_t position, StateKind kind, int32_t layer) const;
    void drop(int32_t position);  // it was taken
    void drop_all();              // the passes failed

 private:
    struct Piece {
        StateKind kind;
        int32_t layer;
        std::vector<std::byte> bytes;
    };
    std::span<const int32_t> positions_within(Positions at) const;
    std::span<std::byte> add(int32_t position, StateKind kind, int32_t layer, uint64_t bytes);
    Result<void> copy_group(const OpenCopy& from, int32_t position, bool previous, Backend& device);

    std::vector<int32_t> positions_;  // ascending
    std::map<int32_t, std::vector<Piece>> pieces_;
};

}  // namespace sluice
