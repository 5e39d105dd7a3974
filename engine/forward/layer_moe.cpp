#include "engine/forward/layer_moe.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

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
    QuantRows x;                // x in host memory, where the CPU may take part
    bool shared_begun = false;  // the shared expert was computed while the routes came
};

// Groups (token, place) pairs by expert. The partials of a token lie in ascending expert id.
void group(int32_t k, Routed& routed) {
    const size_t count = routed.ids.size();
    std::unordered_map<int32_t, int32_t> place;
    std::vector<int32_t> size;
    for (int32_t id : routed.ids) {
        auto [found, fresh] = place.try_emplace(id, static_cast<int32_t>(size.size()));
        if (fresh) {
            routed.distinct.push_back(id);
            size.push_back(0);
        }
        ++size[found->second];
    }
    routed.begin.assign(size.size() + 1, 0);
    for (size_t i = 0; i < size.size(); ++i) routed.begin[i + 1] = routed.begin[i] + size[i];
    routed.rows.resize(count);
    routed.slots.resize(count);
    routed.row_weights.resize(count);
    std::vector<int32_t> next(routed.begin.begin(), routed.begin.end() - 1);
    for (size_t i = 0; i < count; ++i) {
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

// What RAM is asked for, in router order however the work is split: eviction depends on the order.
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

// One call of experts().
struct Layer {
    const ExpertsInputs& in;
    const ExpertScratch& scratch;
    ExpertTiers& tiers;
    RouteLog& log;
    Backend& device;
    const PassHooks& hooks;
    Routed routed{};

    Result<void> choose();
    Result<void> sort_routes();
    Result<void> run();

 private:
    float* route_weights() const;
    std::span<std::byte> exchange(std::vector<std::byte>& own);
    Result<void> check_routes() const;
    void run_shared();
    Result<void> start_prefetch();
    void write_lists() const;
    ExpertWeights view(ExpertKey key, const std::byte* slot) const;
    RoutedExpert operation(int32_t expert, const ExpertWeights& weights) const;
    Result<void> run_from_ram(std::span<const ExpertHandle> ready);
    Result<void> run_resident(std::span<const int32_t> missing);
    Result<void> upload_and_run(std::span<const ExpertHandle> ready);
    void split(std::vector<int32_t>& on_device, std::vector<int32_t>& beside);
    Result<void> wait_for_cpu();
    Result<void> run_on_cpu(const ExpertHandle& handle);
    Result<void> finish_cpu();
    Result<void> run_streamed(size_t streamed);
};

// ---- routes -------------------------------------------------------------------------------------

// The weights lie behind the ids of this pass.
float* Layer::route_weights() const {
    const size_t count = static_cast<size_t>(in.at.n) * in.config.top_k;
    return reinterpret_cast<float*>(scratch.routes + count);
}

// Host memory for the routes, and for the quantised rows if the CPU may take part.
std::span<std::byte> Layer::exchange(std::vector<std::byte>& own) {
    if (tiers.cpu && in.at.n <= CpuExperts::rows_max) {
        const ExchangePlaces at = exchange_places(in.config, in.at.n);
        const std::span<std::byte> both = tiers.cpu->exchange(at.end);
        routed.x = {reinterpret_cast<uint8_t*>(both.data() + at.codes),
                    reinterpret_cast<uint8_t*>(both.data() + at.scales)};
        return both;
    }
    own.resize(static_cast<size_t>(in.at.n) * in.config.top_k * 8);
    return own;
}

Result<void> Layer::check_routes() const {
    for (size_t i = 0; i < routed.ids.size(); ++i) {
        if (routed.ids[i] >= 0 && routed.ids[i] < in.config.experts) continue;
        const int32_t position = in.at.first + static_cast<int32_t>(i / in.config.top_k);
        return fail(Code::numerical,
                    cat("the router's scores at position ", position, " are not finite numbers"));
    }
    return {};
}

// On a device with memory of its own the shared expert of a decode step is computed while the
// routes travel; else the drives come first.
Result<void> Layer::choose() {
    const spans::Leaf leaf("route", in.layer);
    const ModelConfig& c = in.config;
    const size_t count = static_cast<size_t>(in.at.n) * c.top_k;
    device.run(Route{.ids = scratch.routes,
                     .weights = route_weights(),
                     .gate = in.weights.gate,
                     .bias = in.weights.gate_bias,
                     .x = in.x,
                     .n = in.at.n,
                     .k = c.top_k,
                     .scale = c.route_scale,
                     .sum_floor = c.arithmetic.route_sum_floor,
                     .normalise_one = c.arithmetic.route_normalises_one,
                     .given = in.known.known(in.layer)});
    if (in.order.prompt) {
        if (auto done = keep_reading(tiers, device, hooks); !done) return done;
    }
    std::vector<std::byte> own;
    const std::span<std::byte> host = exchange(own);
    device.fetch(scratch.routes, host.size());
    routed.shared_begun = !in.order.prompt && !device.host_memory();
    if (routed.shared_begun) run_shared();
    if (auto done = device.fetched(host.data()); !done) return done;
    routed.ids.resize(count);
    routed.weights.resize(count);
    std::memcpy(routed.ids.data(), host.data(), count * 4);
    std::memcpy(routed.weights.data(), host.data() + count * 4, count * 4);
    if (auto finite = check_routes(); !finite) return finite;
    if (log.recording) log.chosen[in.layer] = routed.ids;
    return {};
}

Result<void> Layer::sort_routes() {
    const size_t count = routed.ids.size();
    auto ids = hooks.probe.see(in.layer, "route_ids", scratch.routes, count);
    if (!ids) return ids;
    auto weights = hooks.probe.see(in.layer, "route_w", route_weights(), count);
    if (!weights) return weights;
    group(in.config.top_k, routed);
    if (in.known.known(in.layer)) return {};
    judge_guesses(in.layer, routed.distinct, log, tiers);
    return {};
}

void Layer::run_shared() {
    const spans::Leaf leaf("shared expert", in.layer);
    const ModelConfig& c = in.config;
    const LayerWeights& w = in.weights;
    const int32_t n = in.at.n;
    device.run(GateUp{{scratch.shared_gate, w.shared_w1, in.xq, n},
                      {scratch.shared_up, w.shared_w3, in.xq, n},
                      {scratch.shared_act, scratch.shared_gate, scratch.shared_up, nullptr, n,
                       c.moe_hidden, c.swiglu_limit, c.arithmetic.activation_group}});
    device.run(LinearFp8{scratch.shared, w.shared_w2, scratch.shared_act, n});
}

Result<void> Layer::start_prefetch() {
    if (in.order.prompt || in.at.n > 1 || !in.next) return {};
    if (in.known.known(in.layer + 1)) {
        prefetch_known(in.known, in.layer, in.limits, log, tiers);
        return {};
    }
    if (!wants_guesses(in.limits, log, tiers, in.layer + 1)) return {};
    const GuessInputs guess{in.config, in.layer, *in.next, in.collapsed, routed.ids};
    return prefetch(guess, scratch.guess, in.limits, log, tiers, device);
}

// ---- operations ---------------------------------------------------------------------------------

// The device reads the lists in place. Whatever read the lists before is done, since the routes
// were downloaded after it.
void Layer::write_lists() const {
    const size_t bytes = routed.rows.size() * 4;
    std::memcpy(scratch.rows, routed.rows.data(), bytes);
    std::memcpy(scratch.slots, routed.slots.data(), bytes);
    std::memcpy(scratch.weights, routed.row_weights.data(), bytes);
}

ExpertWeights Layer::view(ExpertKey key, const std::byte* slot) const {
    const auto& starts = in.map.plan(key).starts;
    const auto part = [&](ExpertPart which) {
        return reinterpret_cast<const uint8_t*>(slot + starts[which]);
    };
    const int32_t d = in.config.hidden, f = in.config.moe_hidden;
    return {.w1 = {part(w1_codes), part(w1_scales), f, d},
            .w2 = {part(w2_codes), part(w2_scales), d, f},
            .w3 = {part(w3_codes), part(w3_scales), f, d}};
}

RoutedExpert Layer::operation(int32_t expert, const ExpertWeights& weights) const {
    const auto found = std::find(routed.distinct.begin(), routed.distinct.end(), expert);
    const size_t i = static_cast<size_t>(found - routed.distinct.begin());
    const int32_t begin = routed.begin[i];
    return {.out = scratch.partial,
            .expert = weights,
            .x = in.xq,
            .rows = scratch.rows + begin,
            .slots = scratch.slots + begin,
            .weights = scratch.weights + begin,
            .count = routed.begin[i + 1] - begin,
            .limit = in.config.swiglu_limit,
            .group = in.config.arithmetic.activation_group};
}

// Experts that are there go in one batch: the CPU's threads meet less often.
Result<void> Layer::run_from_ram(std::span<const ExpertHandle> ready) {
    const spans::Leaf leaf("expert", ready.front().key.layer,
                           ready.size() == 1 ? ready.front().key.expert : -1);
    std::vector<RoutedExpert> items;
    for (const ExpertHandle& handle : ready) {
        Result<const std::byte*> slot = tiers.cache->bytes(handle);
        if (!slot) return tl::unexpected(slot.error());
        items.push_back(operation(handle.key.expert, view(handle.key, *slot)));
    }
    device.run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    for (const ExpertHandle& handle : ready) tiers.cache->release(handle);
    return {};
}

// ---- a device with memory of its own: RAM slot -> upload beside compute -> VRAM slot -----------

// What is in VRAM already, in one batch.
Result<void> Layer::run_resident(std::span<const int32_t> missing) {
    std::vector<RoutedExpert> items;
    for (int32_t expert : routed.distinct) {
        if (std::find(missing.begin(), missing.end(), expert) != missing.end()) continue;
        auto weights = tiers.device->weights({in.layer, expert});
        if (!weights) return tl::unexpected(weights.error());
        items.push_back(operation(expert, *weights));
    }
    if (items.empty()) return {};
    device.run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    tiers.device->used();
    return {};
}

Result<void> Layer::upload_and_run(std::span<const ExpertHandle> ready) {
    const spans::Leaf leaf("upload and run", ready.front().key.layer);
    const int64_t begin = spans::now();
    for (const ExpertHandle& handle : ready) {
        Result<const std::byte*> slot = tiers.cache->bytes(handle);
        if (!slot) return tl::unexpected(slot.error());
        if (auto r = tiers.device->upload(handle.key, *slot); !r) return r;
        if (tiers.cpu) tiers.cpu->upload_begun();
    }
    const uint64_t mark = tiers.device->flush();
    std::vector<RoutedExpert> items;
    for (const ExpertHandle& handle : ready) {
        tiers.uploading.push_back({handle, in.map.expert_bytes(handle.key), mark, begin});
        auto weights = tiers.device->weights(handle.key);
        if (!weights) return tl::unexpected(weights.error());
        items.push_back(operation(handle.key.expert, *weights));
    }
    device.run(RoutedExpertBatch{items.data(), static_cast<int32_t>(items.size())});
    tiers.device->used();
    return release_uploaded(tiers, device, tiers.uploading_max);
}

// ---- the CPU beside the device: RAM slot -> partials in host memory -> upload before Combine ---

// Moves the CPU's share from `on_device` to `beside`.
void Layer::split(std::vector<int32_t>& on_device, std::vector<int32_t>& beside) {
    if (!routed.x.codes) return;
    CpuExperts& cpu = *tiers.cpu;
    const auto bytes = static_cast<double>(in.map.expert_bytes({in.layer, 0}));
    if (in.reads.bytes > 0) {
        cpu.drive_takes(bytes * in.reads.busy_s / static_cast<double>(in.reads.bytes));
    }
    cpu.uploads_took(device.counters().upload_s);
    std::vector<SplitItem> items;
    for (size_t i = 0; i < routed.distinct.size(); ++i) {
        const ExpertKey key{in.layer, routed.distinct[i]};
        if (tiers.device->resident(key)) continue;
        items.push_back(
            {key.expert, routed.begin[i + 1] - routed.begin[i], tiers.cache->resident(key)});
    }
    cpu.choose(items);
    std::erase_if(on_device, [&](int32_t expert) { return cpu.takes(expert); });
    for (const SplitItem& item : items) {
        if (cpu.takes(item.expert)) beside.push_back(item.expert);
    }
}

// Gives the CPU's RAM slots back when it is done.
Result<void> Layer::wait_for_cpu() {
    const spans::Leaf leaf("wait for cpu");
    auto done = tiers.cpu->wait();
    for (const ExpertHandle& handle : tiers.cpu->held()) tiers.cache->release(handle);
    tiers.cpu->drop();
    return done;
}

Result<void> Layer::run_on_cpu(const ExpertHandle& handle) {
    Result<const std::byte*> slot = tiers.cache->bytes(handle);
    if (!slot) return tl::unexpected(slot.error());
    RoutedExpert op = operation(handle.key.expert, view(handle.key, *slot));
    op.x = routed.x;
    tiers.cpu->add(op, handle);
    if (tiers.cpu->full()) return wait_for_cpu();
    return {};
}

Result<void> Layer::finish_cpu() {
    if (auto done = wait_for_cpu(); !done) return done;
    const auto dim = static_cast<size_t>(in.config.hidden);
    for (int32_t slot : tiers.cpu->slots()) {
        device.upload(scratch.partial + slot * dim, tiers.cpu->partial() + slot * dim,
                      dim * sizeof(bf16));
    }
    return {};
}

// ---- the layer ----------------------------------------------------------------------------------

// Computes experts as they arrive in RAM; `streamed`: how many were asked for.
Result<void> Layer::run_streamed(size_t streamed) {
    // In a prompt half of the transit slots in VRAM are computed while the other half is uploaded.
    const size_t transit =
        tiers.device ? tiers.device->transit_slots() : static_cast<size_t>(in.config.top_k);
    const size_t batch = in.order.prompt ? std::max<size_t>(1, transit / 2) : transit;
    std::vector<ExpertHandle> ready;
    for (size_t i = 0; i < streamed; ++i) {
        if (auto go = hooks.go_on(); !go) return go;
        Result<ExpertHandle> handle = tiers.cache->next();
        if (!handle) return tl::unexpected(handle.error());
        Result<void> done;
        if (routed.x.codes && tiers.cpu->takes(handle->key.expert)) {
            done = run_on_cpu(*handle);
        } else {
            ready.push_back(*handle);
        }
        const bool more = ready.size() < batch && i + 1 < streamed && tiers.cache->ready();
        if (done && !ready.empty() && !more) {
            done = tiers.device ? upload_and_run(ready) : run_from_ram(ready);
            ready.clear();
        }
        if (!done) return done;
        if (!hooks.progress || !in.order.prompt) continue;
        hooks.progress(in.layer + static_cast<double>(i + 1) / static_cast<double>(streamed));
    }
    return routed.x.codes ? finish_cpu() : Result<void>{};
}

// The drives start first; the shared expert is computed while they read.
Result<void> Layer::run() {
    const DemandKind kind = in.order.prompt ? DemandKind::prompt : DemandKind::decode;
    std::vector<int32_t> on_device = routed.distinct, missing = on_device, beside;
    if (tiers.device) {
        if (auto r = finish_uploads(tiers, device); !r) return r;
        split(on_device, beside);
        tiers.device->begin(in.layer, on_device, kind, missing);
        add_in_order(routed, beside, missing);
    }
    // First what the CPU can begin with at once.
    auto asked = tiers.cache->demand(in.layer, missing, kind, in.order.group_follows, beside);
    if (!asked) return asked;
    read_ahead(in.known, in.config, in.layer, routed.distinct.size(), in.order, in.limits, tiers);
    if (auto r = start_prefetch(); !r) return r;
    if (!in.limits.overlap) {
        if (auto r = tiers.cache->wait_for_reads(); !r) return r;
    }
    write_lists();
    if (!routed.shared_begun) run_shared();
    if (tiers.device) {
        if (auto r = run_resident(missing); !r) return r;
    }
    return run_streamed(missing.size());
}

}  // namespace

ExchangePlaces exchange_places(const ModelConfig& c, int32_t n) {
    const auto rows = static_cast<uint64_t>(n), dim = static_cast<uint64_t>(c.hidden);
    ExchangePlaces at{};
    at.codes = round_up(rows * c.top_k * (sizeof(int32_t) + sizeof(float)), 256);
    at.scales = at.codes + round_up(rows * dim, 256);
    at.end = at.scales + rows * (dim / 32);
    return at;
}

void bring_routes(const TokenRoutes& known, int32_t layer, const ExpertScratch& scratch,
                  Backend& device) {
    if (!known.known(layer)) return;
    const std::vector<int32_t> routes = known.routes(layer);
    device.upload(scratch.routes, routes.data(), routes.size() * sizeof(int32_t));
}

Result<ExpertOutput> experts(const ExpertsInputs& in, const ExpertScratch& scratch,
                             ExpertTiers& tiers, RouteLog& log, Backend& device,
                             const PassHooks& hooks) {
    const spans::Leaf leaf("experts", in.layer);
    Layer layer{in, scratch, tiers, log, device, hooks};
    if (auto r = layer.choose(); !r) return tl::unexpected(r.error());
    if (auto r = layer.sort_routes(); !r) return tl::unexpected(r.error());
    if (auto done = layer.run(); !done) {
        give_up_experts(tiers, device);
        return tl::unexpected(done.error());
    }
    read_again(in.config, in.layer, layer.routed.distinct.size(), in.order, in.limits, tiers);
    return ExpertOutput{scratch.partial, scratch.shared};
}

}  // namespace sluice
