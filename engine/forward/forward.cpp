#include "engine/forward/forward.h"

#include <algorithm>
#include <cstring>

#include "engine/forward/layer_steps.h"
#include "engine/model/rope.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

// The earliest position that a pass rotates anything by: the first token of a group that it
// completes. At most rope_lookback() before the chunk.
int32_t first_rotated(const ModelConfig& c, Positions at) {
    int32_t first = at.first;
    for (const LayerRows& rows : c.rows) {
        if (rows.ratio < 2) continue;
        const int32_t group = at.first / rows.ratio;
        if (at.end() / rows.ratio > group) first = std::min(first, group * rows.ratio);
    }
    return first;
}

void upload_ropes(Pass& pass) {
    Runtime& rt = pass.runtime;
    const RopeBuffers& to = pass.workspace.ropes;
    const int32_t first = first_rotated(rt.config, pass.at), count = pass.at.end() - first;
    // A chunk's buffers begin rope_lookback() before it, where its neighbours expect them.
    const int32_t skipped = first - (pass.at.first - rope_lookback(rt.config));
    const auto upload = [&](const std::vector<float>& frequencies, float* cos, float* sin) {
        const size_t size = frequencies.size() * count;
        std::vector<float> host(2 * size);
        fill_rope(frequencies, first, count, host.data(), host.data() + size);
        cos += static_cast<int64_t>(skipped) * static_cast<int64_t>(frequencies.size());
        sin += static_cast<int64_t>(skipped) * static_cast<int64_t>(frequencies.size());
        rt.backend->upload(cos, host.data(), size * sizeof(float));
        rt.backend->upload(sin, host.data() + size, size * sizeof(float));
        return RopeTable{cos, sin, first, count, static_cast<int32_t>(frequencies.size())};
    };
    pass.plain = upload(rt.plain_frequencies, to.plain_cos, to.plain_sin);
    pass.yarn = upload(rt.yarn_frequencies, to.yarn_cos, to.yarn_sin);
}

void embed(Pass& pass) {
    Runtime& rt = pass.runtime;
    const uint64_t dim = static_cast<uint64_t>(rt.config.hidden), n = pass.rows.ids.size();
    std::vector<bf16> rows(n * dim);
    for (uint64_t i = 0; i < n; ++i) {
        std::memcpy(rows.data() + i * dim, rt.weights.embedding.data + pass.rows.ids[i] * dim,
                    dim * sizeof(bf16));
    }
    const Workspace& ws = pass.workspace;
    pass.streams = Streams(rt.config, pass.at.n, ws.streams, ws.io, *rt.backend);
    pass.streams.start(rows);

    if (!pass.hooks.probe) return;
    std::vector<float> values;
    for (bf16 value : rows) values.push_back(to_float(value));
    pass.hooks.probe.see_host(-1, "embed", std::span<const float>(values));
}

}  // namespace

void first_reads(const Pass& pass, RouteLog& log) {
    Runtime& rt = pass.runtime;
    const PrefetchLimits limits = rt.prefetch_limits();
    const TokenRoutes known = pass.known();
    read_ahead_first(known, rt.config, pass.at.n, pass.order, limits, rt.tiers);
    if (!pass.order.prompt) prefetch_known(known, -1, limits, log, rt.tiers);
}

void begin_pass(Pass& pass) {
    const spans::Leaf leaf("embedding");
    pass.workspace.fit(pass.runtime.config, pass.at.n);
    pass.selected = pass.workspace.selected;
    upload_ropes(pass);
    embed(pass);
}

Result<void> finish_pass(Pass& pass) {
    Runtime& rt = pass.runtime;
    return run_head({rt.config, rt.weights, pass.at}, pass.wanted, pass.streams,
                    pass.workspace.head, *rt.backend, {rt.head_backend.get(), rt.host_s},
                    pass.hooks);
}

Result<void> explain(const Pass& pass, Result<void> done) {
    if (done || done.error().code != Code::numerical) return done;
    return fail(Code::numerical, cat(done.error().message, "; to look for a damaged file: ",
                                     pass.runtime.checkpoint.check_command()));
}

Result<void> forward(Pass& pass) {
    Runtime& rt = pass.runtime;
    if (auto r = request_rows(rt.config, rt.engram, pass.rows); !r) return r;
    first_reads(pass, pass.routes);
    begin_pass(pass);
    Result<void> done;
    for (int32_t layer = 0; layer < rt.config.layers && done; ++layer) {
        done = run_layer(pass, layer);
    }
    if (done) done = finish_pass(pass);
    if (done) done = pass.hooks.probe.see_state(rt.config, pass.state, pass.at.end());
    abandon_rows(rt.engram, pass.rows);
    return explain(pass, done);
}

}  // namespace sluice
