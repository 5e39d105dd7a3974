// Source of deepseek_v41.h: run_layer() (deepseek-v41.md section 3).
#include "engine/forward/layer_steps.h"
#include "engine/model/deepseek_v41/deepseek_v41.h"

namespace sluice::deepseek_v41 {

namespace {

// An owner of compressed rows makes its index keys of the same latents, so it compresses before its
// indexer chooses.
Result<void> run_attention(Pass& pass, int32_t layer) {
    const LayerWeights& w = weights_of(pass, layer);
    if (auto r = project_keys(pass, layer); !r) return r;
    if (w.compressor) {
        if (auto r = compress_rows(pass, layer, true); !r) return r;
    }
    if (w.indexer) {
        if (auto r = choose_rows(pass, layer); !r) return r;
    }
    return attend_keys(pass, layer);
}

}  // namespace

Result<void> run_layer(Pass& pass, int32_t layer) {
    if (auto r = run_engram(pass, layer); !r) return r;
    if (auto r = begin_layer(pass, layer); !r) return r;
    if (auto r = enter_attention(pass, layer); !r) return r;
    if (auto r = run_attention(pass, layer); !r) return r;
    if (auto r = leave_attention(pass, layer); !r) return r;
    return run_experts(pass, layer);
}

}  // namespace sluice::deepseek_v41
