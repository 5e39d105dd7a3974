#include "engine/forward/layer_engram.h"

#include <algorithm>

#include "io/profile.h"

namespace sluice {

namespace {

size_t table_of(const ModelConfig& c, int32_t layer) {
    const auto found = std::find(c.engram_layers.begin(), c.engram_layers.end(), layer);
    return static_cast<size_t>(found - c.engram_layers.begin());
}

void show_rows(const EngramRows& rows, int32_t layer, size_t table, const TensorProbe& probe) {
    if (!probe) return;
    std::vector<int64_t> numbers;
    for (int32_t place : rows.index[table]) {
        numbers.push_back(static_cast<int64_t>(rows.distinct[table][place]));
    }
    probe.see_host(layer, "engram_rows", std::span<const int64_t>(numbers));
}

Result<void> request_table(const ModelConfig& c, EngramTables& tables, EngramRows& rows,
                           size_t table) {
    rows.index.resize(tables.caches.size());
    rows.distinct.resize(tables.caches.size());
    std::vector<uint64_t> numbers(rows.ids.size() * static_cast<size_t>(c.engram_columns()));
    tables.hash->rows(table, rows.before, rows.ids, numbers);
    std::vector<uint64_t>& distinct = rows.distinct[table];
    distinct = numbers;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    rows.index[table].clear();
    for (uint64_t number : numbers) {
        const auto at = std::lower_bound(distinct.begin(), distinct.end(), number);
        rows.index[table].push_back(static_cast<int32_t>(at - distinct.begin()));
    }
    const RowBuffers::Rows& to = tables.buffers.tables[table];
    auto asked = tables.caches[table]->request(distinct, to.codes, to.scales);
    if (!asked) return asked;
    rows.pending |= size_t{1} << table;
    return {};
}

}  // namespace

uint64_t RowBuffers::lay_out(const ModelConfig& c, int32_t chunk, Suballocator memory) {
    const uint64_t rows = static_cast<uint64_t>(chunk) * c.engram_columns();
    tables.assign(c.engram_layers.size(), {});
    for (Rows& table : tables) {
        memory.take(table.codes, rows * c.engram_dim);
        memory.take(table.scales, rows * c.engram_dim / 32);
    }
    return memory.used();
}

uint64_t RowBuffers::bytes(const ModelConfig& config, int32_t chunk) {
    return RowBuffers().lay_out(config, chunk, Suballocator());
}

RowBuffers::RowBuffers(const ModelConfig& config, int32_t chunk, std::byte* memory) {
    lay_out(config, chunk, Suballocator(memory));
}

Result<void> request_rows(const ModelConfig& config, EngramTables& tables, EngramRows& rows) {
    for (size_t table = 0; table < tables.caches.size(); ++table) {
        if (auto asked = request_table(config, tables, rows, table); !asked) {
            abandon_rows(tables, rows);
            return asked;
        }
    }
    return {};
}

void abandon_rows(EngramTables& tables, EngramRows& rows) {
    for (size_t table = 0; table < tables.caches.size(); ++table) {
        if (rows.pending >> table & 1) (void)tables.caches[table]->wait();
    }
    rows.pending = 0;
}

Result<void> engram(const EngramInputs& in, EngramTables& tables, EngramRows& rows,
                    EngramRows* next, const EngramScratch& scratch, bf16* h, Backend& device,
                    const PassHooks& hooks) {
    const spans::Leaf leaf("engram", in.layer);
    const ModelConfig& c = in.config;
    const EngramWeights& w = in.weights;
    const size_t table = table_of(c, in.layer);
    const uint64_t columns = c.engram_columns();
    rows.pending &= ~(size_t{1} << table);
    if (auto r = tables.caches[table]->wait(); !r) return r;
    show_rows(rows, in.layer, table, hooks.probe);

    const auto tokens = static_cast<int32_t>(rows.ids.size());
    const uint64_t distinct = rows.distinct[table].size();
    const RowBuffers::Rows& read = tables.buffers.tables[table];
    device.upload(scratch.row_codes, read.codes, distinct * c.engram_dim);
    device.upload(scratch.row_scales, read.scales, distinct * c.engram_dim / 32);
    device.upload(scratch.row_index, rows.index[table].data(), tokens * columns * 4);
    if (next) {  // the buffers are free
        if (auto r = request_table(c, tables, *next, table); !r) return r;
    }
    for (int32_t first = 0; first < tokens; first += scratch.slice) {
        const int32_t n = std::min(tokens - first, scratch.slice);
        const uint64_t at = first;
        device.run(EngramGather{.out = scratch.rows,
                                .codes = scratch.row_codes,
                                .scales = scratch.row_scales,
                                .index = scratch.row_index + at * columns,
                                .n = n,
                                .columns = c.engram_columns(),
                                .dim = c.engram_dim});
        device.run(LinearFp8{scratch.kv, w.wkv, scratch.rows, n});
        device.run(EngramGate{.h = h + at * c.hc * c.hidden,
                              .kv = scratch.kv,
                              .q_weight = w.q_weight,
                              .k_weight = w.k_weight,
                              .n = n,
                              .hc = c.hc,
                              .dim = c.hidden,
                              .eps = c.norm_eps});
    }
    return hooks.probe.see(in.layer, "engram_out", h,
                           static_cast<uint64_t>(tokens) * c.hc * c.hidden);
}

}  // namespace sluice
