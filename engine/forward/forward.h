// The forward pass: one function of calls for prompt and decode. n tokens go through embedding,
// every layer, and the head; n is 1 for a decode step and a chunk for a prompt. Chunks of one
// prompt may form a group: each layer is run for all of them before the next one begins.
//
// The layer_*.cpp files hold one mechanism each and share what a pass knows through Pass.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "engine/forward/probe.h"
#include "engine/forward/runtime.h"

namespace sluice {

// One call of forward(), as its parts see it.
struct Pass {
    Runtime& rt;
    Workspace& ws;
    State& state;
    std::span<const int32_t> ids;
    int32_t position = 0;  // of ids[0]
    int32_t n = 0;
    bool sweep = false;  // part of a prompt
    bool each = false;   // logits of every position, not the last alone
    Probe* probe = nullptr;
    const std::atomic<bool>* cancel = nullptr;
    // The place of the last position's best logit is wanted, and no logits: they may stay where
    // they are computed.
    int32_t* best = nullptr;
    int32_t next_n = 0;                 // tokens of the pass that follows in the same prompt
    std::span<const int32_t> before{};  // the tokens before ids[0]
    Pass* next = nullptr;               // of a chunk group, the one behind this
    // Told after every layer, and of a sweep after every expert; may be empty.
    std::function<void(double layers_done)> progress{};
    // Told the logits of a position; they are gone when it returns.
    std::function<void(int32_t position, std::span<const float>)> logits{};

    RopeTable plain{}, yarn{};
    float* pre = nullptr;       // threaded one sub-layer ahead
    float* pre_next = nullptr;  // the other buffer
    // The streams, and where the next expansion puts them: another buffer for short passes, else
    // the same. While `pending`, the last sub-layer's output (ws.y, or with `combine` ws.partial
    // and ws.shared) is not in them yet: the next sub-layer's first step expands it.
    bf16* h = nullptr;
    bf16* h_next = nullptr;
    bool pending = false;
    bool combine = false;
    float *post = nullptr, *comb = nullptr;  // of the sub-layer that runs
    float *post_next = nullptr, *comb_next = nullptr;
    int32_t topk_width = 0;  // of the list published last

    std::vector<std::vector<int32_t>> row_index{};  // one an Engram layer
    std::vector<std::vector<uint64_t>> row_ids{};   // as asked for, distinct
    size_t rows_pending = 0;                        // bit per Engram layer

    struct {  // for route files: [layers][n * k], or [layers][k] guesses of a decode step
        std::vector<std::vector<int32_t>> chosen, guesses;
    } routes{};
    std::vector<int32_t> guessed{};  // of the next layer, not in RAM, best first

    const RopeTable& rope(int32_t layer) const {
        return rt.config.ratios[layer] == 0 ? plain : yarn;
    }
    // Lets reads progress; an error when the user stopped.
    Result<void> go_on() {
        if (cancel && cancel->load(std::memory_order_relaxed)) {
            return fail(Code::interrupted, "stopped");
        }
        return rt.cache->pump();
    }
};

Result<void> forward(Pass& pass);
// Chunks of one prompt, in order, each with a workspace of its own that is a copy of the runtime's:
// the experts of a layer are read once for all of them, as far as the cache can keep them. The same
// bits as one after another.
Result<void> forward_chunked(std::span<Pass> chunks);

// The numerical failure that `what` says, with what to do about it.
tl::unexpected<Error> not_finite(const Pass& pass, std::string_view what);

// ---- parts of both

void begin_pass(Pass& pass);  // embedding
Result<void> pass_layer(Pass& pass, int32_t layer);
Result<void> run_head(Pass& pass);
// Brings pass.h up to date.
void settle(Pass& pass);

// ---- mechanisms: x [n][D] in, y [n][D] out, both in the workspace

Result<void> attention(Pass& pass, int32_t layer);   // layer_attention.cpp
Result<void> compress(Pass& pass, int32_t layer);    // layer_compress.cpp
Result<void> index_rows(Pass& pass, int32_t layer);  // layer_index.cpp
Result<void> experts(Pass& pass, int32_t layer);     // layer_moe.cpp
// Waits for the device, of a sweep, while reads and uploads go on.
Result<void> keep_reading(Pass& pass);
Result<void> finish_uploads(Runtime& rt);      // gives the RAM slots back that they read
void give_up_experts(Runtime& rt);             // after a failure: nothing is in flight or held
Result<void> request_engram_rows(Pass& pass);  // layer_engram.cpp
Result<void> engram(Pass& pass, int32_t layer);
void abandon_engram_rows(Pass& pass);

// ---- prefetch.cpp: experts that are read before they are asked for

// A sweep that begins: its first layer's.
void read_ahead_first(Pass& pass);
// A sweep whose `layer` chose so many distinct experts: those of the layer that follows, or of the
// next chunk's first.
void read_ahead(Pass& pass, int32_t layer, size_t distinct);
// The same, when the experts are computed: what the next chunk needs of the same layer and the
// cache could not keep.
void read_again(Pass& pass, int32_t layer, size_t distinct);
// A decode step whose `layer` chose `chosen` (router order): guesses for the next layer.
Result<void> prefetch(Pass& pass, int32_t layer, std::span<const int32_t> chosen);
// What became of those made one layer ago.
void judge_guesses(Pass& pass, int32_t layer, std::span<const int32_t> chosen);

// ---- probe.cpp: tensors to the probe, if there is one

Result<void> probe(Pass& pass, int32_t layer, const char* name, const bf16* device, uint64_t count);
Result<void> probe(Pass& pass, int32_t layer, const char* name, const float* device,
                   uint64_t count);
Result<void> probe(Pass& pass, int32_t layer, const char* name, const int32_t* device,
                   uint64_t count);
Result<void> probe_candidates(Pass& pass, int32_t layer, int32_t rows);
Result<void> probe_replace(Pass& pass, int32_t layer);
Result<void> probe_state(Pass& pass);

}  // namespace sluice
