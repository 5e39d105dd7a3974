// Engram (section 3.8): rows of a large table, known from the token ids alone, gate a value into
// the streams.
#include <algorithm>

#include "engine/forward/forward.h"
#include "io/profile.h"

namespace sluice {

namespace {

size_t which_table(const ModelConfig& c, int32_t layer) {
    const auto found = std::find(c.engram_layers.begin(), c.engram_layers.end(), layer);
    return static_cast<size_t>(found - c.engram_layers.begin());
}

Result<void> probe_rows(Pass& pass, int32_t layer, size_t which) {
    if (!pass.probe) return {};
    std::vector<int64_t> rows;
    for (int32_t place : pass.row_index[which]) {
        rows.push_back(static_cast<int64_t>(pass.row_ids[which][place]));
    }
    pass.probe->integers(layer, "engram_rows", rows);
    return {};
}

// Of one table.
Result<void> request_rows(Pass& pass, size_t which) {
    Runtime& rt = pass.rt;
    pass.row_index.resize(rt.rows.size());
    pass.row_ids.resize(rt.rows.size());
    std::vector<uint64_t> rows(pass.n * static_cast<size_t>(rt.config.engram_columns()));
    rt.hash->rows(which, pass.before, pass.ids, rows);
    std::vector<uint64_t>& distinct = pass.row_ids[which];
    distinct = rows;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    pass.row_index[which].clear();
    for (uint64_t row : rows) {
        const auto at = std::lower_bound(distinct.begin(), distinct.end(), row);
        pass.row_index[which].push_back(static_cast<int32_t>(at - distinct.begin()));
    }
    const RowBuffers::Rows& to = rt.row_buffers.tables[which];
    if (auto asked = rt.rows[which]->request(distinct, to.codes, to.scales); !asked) return asked;
    pass.rows_pending |= size_t{1} << which;
    return {};
}

}  // namespace

Result<void> request_engram_rows(Pass& pass) {
    for (size_t which = 0; which < pass.rt.rows.size(); which++) {
        if (auto asked = request_rows(pass, which); !asked) {
            abandon_engram_rows(pass);
            return asked;
        }
    }
    return {};
}

// A request that nobody waits for would write into buffers of the next call.
void abandon_engram_rows(Pass& pass) {
    for (size_t which = 0; which < pass.rt.rows.size(); which++) {
        if (pass.rows_pending >> which & 1) (void)pass.rt.rows[which]->wait();
    }
    pass.rows_pending = 0;
}

Result<void> engram(Pass& pass, int32_t layer) {
    const spans::Leaf leaf("engram", layer);
    const ModelConfig& c = pass.rt.config;
    const EngramWeights& w = *pass.rt.weights.layers[layer].engram;
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const size_t which = which_table(c, layer);
    const uint64_t columns = c.engram_columns();
    pass.rows_pending &= ~(size_t{1} << which);
    if (auto r = pass.rt.rows[which]->wait(); !r) return r;
    if (auto r = probe_rows(pass, layer, which); !r) return r;

    const uint64_t distinct = pass.row_ids[which].size();
    const RowBuffers::Rows& rows = pass.rt.row_buffers.tables[which];
    backend.upload(ws.row_codes, rows.codes, distinct * c.engram_dim);
    backend.upload(ws.row_scales, rows.scales, distinct * c.engram_dim / 32);
    backend.upload(ws.row_index, pass.row_index[which].data(), pass.n * columns * 4);
    if (pass.next) {  // the buffers are free
        if (auto r = request_rows(*pass.next, which); !r) return r;
    }
    for (int32_t first = 0; first < pass.n; first += ws.shape.slice) {
        const int32_t n = std::min(pass.n - first, ws.shape.slice);
        const uint64_t at = first;
        backend.run(EngramGather{.out = ws.rows,
                                 .codes = ws.row_codes,
                                 .scales = ws.row_scales,
                                 .index = ws.row_index + at * columns,
                                 .n = n,
                                 .columns = c.engram_columns(),
                                 .dim = c.engram_dim});
        backend.run(LinearFp8{ws.engram_kv, w.wkv, ws.rows, n});
        backend.run(EngramGate{.h = pass.h + at * c.hc * c.hidden,
                               .kv = ws.engram_kv,
                               .q_weight = w.q_weight,
                               .k_weight = w.k_weight,
                               .n = n,
                               .hc = c.hc,
                               .dim = c.hidden,
                               .eps = c.norm_eps});
    }
    return probe(pass, layer, "engram_out", pass.h,
                 static_cast<uint64_t>(pass.n) * c.hc * c.hidden);
}

}  // namespace sluice
