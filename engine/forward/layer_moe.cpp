// Mixture of experts (section 3.9). The order of arrival of experts never shows: every partial has
// its own place, and one sum adds them in ascending expert id.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "engine/forward/forward.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

// What the host knows after the download of a layer's routes.
struct Routed {
    std::vector<int32_t> ids;       // [n][k], router order
    std::vector<float> weights;     // [n][k]
    std::vector<int32_t> distinct;  // in router order
    // Rows, slots and weights of distinct[i] are begin[i] .. begin[i + 1] of the lists.
    std::vector<int32_t> begin, rows, slots;
    std::vector<float> row_weights;
    QuantRows x;                // of the pass in host memory, where the CPU may take part
    bool shared_begun = false;  // the shared expert, while the routes came
};

// The weights lie behind the ids of this pass.
float* route_weights(const Pass& pass) {
    const size_t count = static_cast<size_t>(pass.n) * pass.rt.config.top_k;
    return reinterpret_cast<float*>(pass.ws.routes + count);
}

Route route_op(const Pass& pass, int32_t layer, int32_t* ids, float* weights) {
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    return {.ids = ids,
            .weights = weights,
            .gate = w.gate,
            .bias = w.gate_bias,
            .x = pass.ws.x,
            .n = pass.n,
            .k = c.top_k,
            .scale = c.route_scale};
}

// Gives RAM slots back whose upload is over; with `room`, waits until fewer than that many are
// held.
Result<void> release_uploaded(Runtime& rt, size_t room) {
    while (!rt.uploading.empty()) {
        const auto& [handle, mark, begin] = rt.uploading.front();
        if (!rt.backend->uploads_done(mark)) {
            if (rt.uploading.size() < room) return {};
            const spans::Leaf leaf("wait for link");
            if (auto done = rt.backend->wait_uploads(mark); !done) return done;
        }
        spans::add({"upload", begin, spans::now(), rt.experts->expert_bytes(handle.key), 0,
                    handle.key.layer, handle.key.expert, spans::Track::uploads, false});
        rt.cache->release(handle);
        rt.uploading.pop_front();
    }
    return {};
}

}  // namespace

// A sweep's layer takes a device longer than the reads that are in flight: uploads and reads go on
// while the host waits for it.
Result<void> keep_reading(Pass& pass) {
    Runtime& rt = pass.rt;
    if (!pass.sweep || rt.backend->host_memory()) return {};
    const spans::Leaf leaf("wait for device");
    const uint64_t mark = rt.backend->mark_compute();
    while (!rt.backend->compute_done(mark)) {
        if (auto done = release_uploaded(rt, SIZE_MAX); !done) return done;
        if (auto go = pass.go_on(); !go) return go;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return {};
}

Result<void> finish_uploads(Runtime& rt) {
    return release_uploaded(rt, 1);
}

void give_up_experts(Runtime& rt) {
    // Work in flight may still read the slots.
    (void)rt.backend->synchronize();
    if (rt.device_experts) rt.device_experts->used();
    if (rt.cpu_experts) {
        (void)rt.cpu_experts->wait();
        rt.cpu_experts->drop();
    }
    rt.uploading.clear();
    rt.cache->abandon();
}

namespace {

void run_shared(Pass& pass, int32_t layer) {
    const spans::Leaf leaf("shared expert", layer);
    const ModelConfig& c = pass.rt.config;
    const LayerWeights& w = pass.rt.weights.layers[layer];
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const int32_t n = pass.n;
    backend.run(GateUp{
        {ws.shared_gate, w.shared_w1, ws.xq, n},
        {ws.shared_up, w.shared_w3, ws.xq, n},
        {ws.shared_act, ws.shared_gate, ws.shared_up, nullptr, n, c.moe_hidden, c.swiglu_limit}});
    backend.run(LinearFp8{ws.shared, w.shared_w2, ws.shared_act, n});
}

// On a device with memory of its own the shared expert of a decode step is computed while the
// routes travel; else the drive comes first.
Result<void> choose(Pass& pass, int32_t layer, Routed& routed) {
    const spans::Leaf leaf("route", layer);
    Workspace& ws = pass.ws;
    Backend& backend = *pass.rt.backend;
    const ModelConfig& c = pass.rt.config;
    const size_t count = static_cast<size_t>(pass.n) * c.top_k;
    backend.run(route_op(pass, layer, ws.routes, route_weights(pass)));
    if (auto done = keep_reading(pass); !done) return done;
    std::vector<std::byte> own;
    std::span<std::byte> both;
    if (pass.rt.cpu_experts && pass.n <= CpuExperts::rows_max) {
        const auto at = Workspace::exchange_places(c, pass.n);
        both = pass.rt.cpu_experts->exchange(at.end);
        routed.x = {reinterpret_cast<uint8_t*>(both.data() + at.codes),
                    reinterpret_cast<uint8_t*>(both.data() + at.scales)};
    } else {
        own.resize(count * 8);
        both = own;
    }
    backend.fetch(ws.routes, both.size());
    routed.shared_begun = !pass.sweep && !backend.host_memory();
    if (routed.shared_begun) run_shared(pass, layer);
    if (auto done = backend.fetched(both.data()); !done) return done;
    routed.ids.resize(count);
    routed.weights.resize(count);
    std::memcpy(routed.ids.data(), both.data(), count * 4);
    std::memcpy(routed.weights.data(), both.data() + count * 4, count * 4);
    for (size_t i = 0; i < count; i++) {
        if (routed.ids[i] >= 0 && routed.ids[i] < c.experts) continue;
        return not_finite(pass, cat("the router's scores at position ",
                                    pass.position + static_cast<int32_t>(i / c.top_k),
                                    " are not finite numbers"));
    }
    if (pass.rt.recorder) pass.routes.chosen[layer] = routed.ids;
    return {};
}

// Groups (token, place) pairs by expert. A token's partials lie in ascending expert id.
void group(const Pass& pass, Routed& routed) {
    const int32_t k = pass.rt.config.top_k;
    const size_t count = routed.ids.size();
    std::unordered_map<int32_t, int32_t> place;
    std::vector<int32_t> size;
    for (int32_t id : routed.ids) {
        auto [found, fresh] = place.try_emplace(id, static_cast<int32_t>(size.size()));
        if (fresh) {
            routed.distinct.push_back(id);
            size.push_back(0);
        }
        size[found->second]++;
    }
    routed.begin.assign(size.size() + 1, 0);
    for (size_t i = 0; i < size.size(); i++) routed.begin[i + 1] = routed.begin[i] + size[i];
    routed.rows.resize(count);
    routed.slots.resize(count);
    routed.row_weights.resize(count);
    std::vector<int32_t> next(routed.begin.begin(), routed.begin.end() - 1);
    for (size_t i = 0; i < count; i++) {
        const size_t token = i / k;
        const int32_t* mine = routed.ids.data() + token * k;
        const auto rank =
            std::count_if(mine, mine + k, [&](int32_t id) { return id < routed.ids[i]; });
        const int32_t at = next[place[routed.ids[i]]]++;
        routed.rows[at] = static_cast<int32_t>(token);
        routed.slots[at] = static_cast<int32_t>(token * k + rank);
        routed.row_weights[at] = routed.weights[i];
    }
}

// The device reads the lists in place; whatever read them before is done, since the routes were
// downloaded after it.
void write_lists(Pass& pass, const Routed& routed) {
    Workspace& ws = pass.ws;
    const size_t bytes = routed.rows.size() * 4;
    std::memcpy(ws.expert_rows, routed.rows.data(), bytes);
    std::memcpy(ws.expert_slots, routed.slots.data(), bytes);
    std::memcpy(ws.expert_weights, routed.row_weights.data(), bytes);
}

ExpertWeights view(const Runtime& rt, ExpertKey key, const std::byte* slot) {
    const auto& starts = rt.experts->plan(key).starts;
    const auto part = [&](ExpertPart which) {
        return reinterpret_cast<const uint8_t*>(slot + starts[which]);
    };
    const int32_t d = rt.config.hidden, f = rt.config.moe_hidden;
    return {.w1 = {part(w1_codes), part(w1_scales), f, d},
            .w2 = {part(w2_codes), part(w2_scales), d, f},
            .w3 = {part(w3_codes), part(w3_scales), f, d}};
}

RoutedExpert expert_op(const Pass& pass, const Routed& routed, int32_t expert,
                       const ExpertWeights& weights) {
    const Workspace& ws = pass.ws;
    const auto found = std::find(routed.distinct.begin(), routed.distinct.end(), expert);
    const size_t i = static_cast<size_t>(found - routed.distinct.begin());
    const int32_t begin = routed.begin[i];
    return {.out = ws.partial,
            .expert = weights,
            .x = ws.xq,
            .rows = ws.expert_rows + begin,
            .slots = ws.expert_slots + begin,
            .weights = ws.expert_weights + begin,
            .count = routed.begin[i + 1] - begin,
            .limit = pass.rt.config.swiglu_limit};
}

// Experts that are there go in one batch: the CPU's threads meet less often.
Result<void> run_ready(Pass& pass, const Routed& routed, std::span<const ExpertHandle> ready) {
    Runtime& rt = pass.rt;
    const spans::Leaf leaf("expert", ready.front().key.layer,
                           ready.size() == 1 ? ready.front().key.expert : -1);
    std::vector<RoutedExpert> items;
    for (const ExpertHandle& handle : ready) {
        Result<const std::byte*> slot = rt.cache->bytes(handle);
        if (!slot) return tl::unexpected(slot.error());
        items.push_back(expert_op(pass, routed, handle.key.expert, view(rt, handle.key, *slot)));
    }
    rt.backend->run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    for (const ExpertHandle& handle : ready) rt.cache->release(handle);
    return {};
}

// ---- a device with memory of its own: RAM slot -> upload beside compute -> VRAM slot

// What is in VRAM already, in one batch.
Result<void> run_resident(Pass& pass, int32_t layer, const Routed& routed,
                          std::span<const int32_t> missing) {
    std::vector<RoutedExpert> items;
    for (int32_t expert : routed.distinct) {
        if (std::find(missing.begin(), missing.end(), expert) != missing.end()) continue;
        auto weights = pass.rt.device_experts->weights({layer, expert});
        if (!weights) return tl::unexpected(weights.error());
        items.push_back(expert_op(pass, routed, expert, *weights));
    }
    if (items.empty()) return {};
    pass.rt.backend->run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    pass.rt.device_experts->used();
    return {};
}

// Experts that are there go in one batch.
Result<void> upload_and_run(Pass& pass, const Routed& routed, std::span<const ExpertHandle> ready) {
    Runtime& rt = pass.rt;
    const spans::Leaf leaf("upload and run", ready.front().key.layer);
    const int64_t begin = spans::now();
    for (const ExpertHandle& handle : ready) {
        Result<const std::byte*> slot = rt.cache->bytes(handle);
        if (!slot) return tl::unexpected(slot.error());
        if (auto r = rt.device_experts->upload(handle.key, *slot); !r) return r;
        if (rt.cpu_experts) rt.cpu_experts->upload_begun();
    }
    const uint64_t mark = rt.device_experts->flush();
    std::vector<RoutedExpert> items;
    for (const ExpertHandle& handle : ready) {
        rt.uploading.push_back({handle, mark, begin});
        auto weights = rt.device_experts->weights(handle.key);
        if (!weights) return tl::unexpected(weights.error());
        items.push_back(expert_op(pass, routed, handle.key.expert, *weights));
    }
    rt.backend->run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    rt.device_experts->used();
    return release_uploaded(rt, rt.uploading_max);
}

// ---- the CPU beside the device: RAM slot -> partials in host memory -> upload before Combine

// Takes the CPU's share out of `device`, and gives it back in `beside`.
void split(Pass& pass, int32_t layer, const Routed& routed, std::vector<int32_t>& device,
           std::vector<int32_t>& beside) {
    Runtime& rt = pass.rt;
    if (!routed.x.codes) return;
    CpuExperts& cpu = *rt.cpu_experts;
    const RingStats& ring = rt.ring->stats();
    const double bytes = static_cast<double>(rt.experts->expert_bytes({layer, 0}));
    if (ring.bytes > 0) cpu.drive_takes(bytes * ring.busy_s / static_cast<double>(ring.bytes));
    cpu.uploads_took(rt.backend->counters().upload_s);
    std::vector<SplitItem> items;
    for (size_t i = 0; i < routed.distinct.size(); i++) {
        const ExpertKey key{layer, routed.distinct[i]};
        if (rt.device_experts->resident(key)) continue;
        items.push_back(
            {key.expert, routed.begin[i + 1] - routed.begin[i], rt.cache->resident(key)});
    }
    cpu.choose(items);
    std::erase_if(device, [&](int32_t expert) { return cpu.takes(expert); });
    for (const SplitItem& item : items) {
        if (cpu.takes(item.expert)) beside.push_back(item.expert);
    }
}

// What RAM is asked for, in router order whatever the split: who is evicted goes by it.
void add_in_order(const Routed& routed, const std::vector<int32_t>& beside,
                  std::vector<int32_t>& missing) {
    if (beside.empty()) return;
    const auto in = [](const std::vector<int32_t>& list, int32_t expert) {
        return std::find(list.begin(), list.end(), expert) != list.end();
    };
    std::vector<int32_t> both;
    for (int32_t expert : routed.distinct) {
        if (in(beside, expert) || in(missing, expert)) both.push_back(expert);
    }
    missing = std::move(both);
}

// Waits for the CPU, and gives its RAM slots back.
Result<void> wait_beside(Runtime& rt) {
    const spans::Leaf leaf("wait for cpu");
    auto done = rt.cpu_experts->wait();
    for (const ExpertHandle& handle : rt.cpu_experts->held()) rt.cache->release(handle);
    rt.cpu_experts->drop();
    return done;
}

Result<void> run_beside(Pass& pass, const Routed& routed, const ExpertHandle& handle) {
    Runtime& rt = pass.rt;
    Result<const std::byte*> slot = rt.cache->bytes(handle);
    if (!slot) return tl::unexpected(slot.error());
    RoutedExpert op = expert_op(pass, routed, handle.key.expert, view(rt, handle.key, *slot));
    op.x = routed.x;
    rt.cpu_experts->add(op, handle);
    if (rt.cpu_experts->full()) return wait_beside(rt);
    return {};
}

Result<void> finish_beside(Pass& pass) {
    Runtime& rt = pass.rt;
    if (auto done = wait_beside(rt); !done) return done;
    const size_t dim = static_cast<size_t>(rt.config.hidden);
    for (int32_t slot : rt.cpu_experts->slots()) {
        rt.backend->upload(pass.ws.partial + slot * dim, rt.cpu_experts->partial() + slot * dim,
                           dim * sizeof(bf16));
    }
    return {};
}

// `streamed`: how many experts the RAM tier was asked for.
Result<void> run_streamed(Pass& pass, int32_t layer, const Routed& routed, size_t streamed) {
    Runtime& rt = pass.rt;
    // In a sweep half of the transit slots in VRAM are computed while the other half is uploaded.
    const size_t transit = rt.device_experts ? rt.device_experts->transit_slots()
                                             : static_cast<size_t>(rt.config.top_k);
    const size_t batch = pass.sweep ? std::max<size_t>(1, transit / 2) : transit;
    std::vector<ExpertHandle> ready;
    for (size_t i = 0; i < streamed; i++) {
        if (auto go = pass.go_on(); !go) return go;
        Result<ExpertHandle> handle = rt.cache->next();
        if (!handle) return tl::unexpected(handle.error());
        Result<void> done;
        if (routed.x.codes && rt.cpu_experts->takes(handle->key.expert)) {
            done = run_beside(pass, routed, *handle);
        } else {
            ready.push_back(*handle);
        }
        const bool more = ready.size() < batch && i + 1 < streamed && rt.cache->ready();
        if (done && !ready.empty() && !more) {
            done = rt.device_experts ? upload_and_run(pass, routed, ready)
                                     : run_ready(pass, routed, ready);
            ready.clear();
        }
        if (!done) return done;
        if (!pass.progress || !pass.sweep) continue;
        pass.progress(layer + static_cast<double>(i + 1) / static_cast<double>(streamed));
    }
    return routed.x.codes ? finish_beside(pass) : Result<void>{};
}

// Demand, shared expert, routed experts. The drive starts first; the shared expert is computed
// while it reads.
Result<void> run_experts(Pass& pass, int32_t layer, const Routed& routed) {
    Runtime& rt = pass.rt;
    const DemandKind kind = pass.sweep ? DemandKind::prompt : DemandKind::decode;
    std::vector<int32_t> device = routed.distinct, missing = device, beside;
    if (rt.device_experts) {
        if (auto r = finish_uploads(rt); !r) return r;
        split(pass, layer, routed, device, beside);
        rt.device_experts->begin(layer, device, kind, missing);
        add_in_order(routed, beside, missing);
    }
    // First what the CPU can begin with at once.
    if (auto r = rt.cache->demand(layer, missing, kind, pass.next != nullptr, beside); !r) return r;
    read_ahead(pass, layer, routed.distinct.size());
    if (auto r = prefetch(pass, layer, routed.ids); !r) return r;
    if (rt.options.overlap == Overlap::none) {
        if (auto r = rt.cache->wait_for_reads(); !r) return r;
    }
    write_lists(pass, routed);
    if (!routed.shared_begun) run_shared(pass, layer);
    if (rt.device_experts) {
        if (auto r = run_resident(pass, layer, routed, missing); !r) return r;
    }
    return run_streamed(pass, layer, routed, missing.size());
}

}  // namespace

// Leaves the output as partials and shared expert, for the step that follows to combine.
Result<void> experts(Pass& pass, int32_t layer) {
    const spans::Leaf leaf("experts", layer);
    Runtime& rt = pass.rt;
    Routed routed;
    if (auto r = choose(pass, layer, routed); !r) return r;
    const uint64_t count = routed.ids.size();
    if (auto r = probe(pass, layer, "route_ids", pass.ws.routes, count); !r) return r;
    if (auto r = probe(pass, layer, "route_w", route_weights(pass), count); !r) return r;
    group(pass, routed);
    judge_guesses(pass, layer, routed.distinct);
    auto done = run_experts(pass, layer, routed);
    if (done) {
        read_again(pass, layer, routed.distinct.size());
    } else {
        give_up_experts(rt);
    }
    return done;
}

}  // namespace sluice
