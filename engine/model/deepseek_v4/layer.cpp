// Source of deepseek_v4.h: run_layer() (deepseek-v4.md section 3).
#include "engine/forward/layer_steps.h"
#include "engine/model/deepseek_v4/deepseek_v4.h"

namespace sluice::deepseek_v4 {

namespace {

// Every layer with compressed rows owns them. Where an indexer chooses among them, it has a
// compressor of its own for its keys; else all rows are attended to.
Result<void> run_attention(Pass& pass, int32_t layer) {
    const LayerWeights& w = weights_of(pass, layer);
    if (auto r = project_keys(pass, layer); !r) return r;
    if (w.indexer) {
        if (auto r = compress_keys(pass, layer); !r) return r;
        if (auto r = choose_rows(pass, layer); !r) return r;
    }
    if (w.compressor) {
        if (auto r = compress_rows(pass, layer, false); !r) return r;
    }
    return attend_keys(pass, layer);
}

}  // namespace

Result<void> run_layer(Pass& pass, int32_t layer) {
    if (auto r = begin_layer(pass, layer); !r) return r;
    if (auto r = enter_attention(pass, layer); !r) return r;
    if (auto r = run_attention(pass, layer); !r) return r;
    if (auto r = leave_attention(pass, layer); !r) return r;
    return run_experts(pass, layer);
}

}  // namespace sluice::deepseek_v4
