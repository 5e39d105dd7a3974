#include <algorithm>
#include <limits>

#include "cache/row_cache.h"
#include "engine/cpu_experts.h"
#include "engine/memory_plan.h"
#include "engine/state.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr int32_t context_default = 8192;
constexpr int32_t chunk_least = 16;
constexpr int32_t chunk_step = 64;
constexpr int32_t host_chunk_most = 2048;
constexpr int32_t device_chunk_most = 4096;
constexpr int32_t chunk_comfortable = 512;   // what the head has to leave room for on a device
constexpr uint32_t vram_ring = 4;            // device slots that experts pass through
constexpr uint32_t row_capacity = 16384;     // Engram rows kept, a table
constexpr uint64_t row_staging = 64u << 10;  // of the row reader, a read in flight
constexpr uint32_t ring_slots_least = 8;

// Each folder is a drive with reads of its own in flight; a mirror shares those of others.
uint32_t folders(const EngineOptions& options) {
    return std::max<uint32_t>(1, static_cast<uint32_t>(options.locations.size()));
}

uint32_t drives(const EngineOptions& options) {
    return folders(options) + static_cast<uint32_t>(options.mirrors.size());
}

Result<void> resolve_context(const PlanInput& in) {
    EngineOptions& o = in.options;
    if (o.context < 0 || o.context > in.config.positions_max) {
        return fail(Code::usage, cat("a context of ", o.context,
                                     " tokens is outside what the model was made for, 1 to ",
                                     in.config.positions_max));
    }
    if (o.context == 0) o.context = std::min(in.config.positions_max, context_default);
    if (o.chunk < 0) return fail(Code::usage, cat("a prompt chunk of ", o.chunk, " tokens"));
    o.chunk = std::min(o.chunk, o.context);
    return {};
}

void size_chunk(const PlanInput& in, int32_t chunk, Plan& plan) {
    plan.shape = WorkspaceShape::plan(in.config, chunk, in.options.context);
    plan.workspace = Workspace::bytes(in.config, plan.shape);
    plan.scratch = in.device.scratch(largest_shapes(in.config, plan.shape));
    plan.row_buffers = RowBuffers::bytes(in.config, chunk);
    const auto rows_max = static_cast<uint32_t>(chunk * in.config.engram_columns());
    for (const RowTable& table : in.tables) {
        plan.row_buffers += RowCache::memory(table, plan.row_capacity, rows_max) +
                            row_staging * in.options.ring_depth * drives(in.options) / 2;
    }
}

// The official decode quirk depends on how a text is cut, so a prompt has to be one chunk. Else the
// largest chunk that fits: a prompt's experts cross the link, and may be read, once a chunk. On a
// device it goes before the expert cache there, which is of little use before it holds a token's
// experts.
void resolve_chunk(const PlanInput& in, uint64_t ram_left, uint64_t device_left, Plan& plan) {
    EngineOptions& o = in.options;
    const bool whole = o.index_keys == IndexKeys::reference;
    const bool host = in.device.host;
    const uint64_t ring = vram_ring * in.device_slot_bytes;
    const auto fits = [&](int32_t chunk) {
        size_chunk(in, chunk, plan);
        if (host) return plan.workspace + plan.row_buffers <= ram_left / 4;
        return plan.workspace + plan.scratch + ring <= device_left &&
               plan.row_buffers <= ram_left / 4;
    };
    int32_t chunk = o.chunk;
    if (chunk == 0 && whole) chunk = o.context;
    if (chunk == 0) {
        chunk = std::min(host ? host_chunk_most : device_chunk_most, o.context);
        while (chunk > chunk_least && !fits(chunk)) {
            chunk = chunk > chunk_step ? (chunk - 1) / chunk_step * chunk_step
                                       : std::max(chunk_least, chunk / 2);
        }
    }
    size_chunk(in, chunk, plan);
    o.chunk = chunk;
}

// What is left of VRAM holds experts.
Result<void> resolve_vram_slots(const PlanInput& in, Budget& vram, Plan& plan) {
    const ModelConfig& c = in.config;
    const uint64_t slot = in.device_slot_bytes;
    const auto all = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.experts);
    plan.vram_ring_slots = vram_ring;
    auto taken = vram.take(cat("experts in transit, ", vram_ring, " slots"), vram_ring * slot);
    if (!taken) return taken;
    uint64_t slots = std::min(all, vram.left() / slot);
    if (in.options.vram_slots) {
        if (*in.options.vram_slots > slots) {
            return fail(Code::no_memory, cat("a VRAM expert cache of ", *in.options.vram_slots,
                                             " slots does not fit: there is room for ", slots));
        }
        slots = *in.options.vram_slots;
    }
    plan.vram_cache_slots = static_cast<uint32_t>(slots);
    in.options.vram_slots = plan.vram_cache_slots;
    return vram.take(cat("expert cache, ", slots, " slots"), slots * slot);
}

// The head moves to host memory if the device could not hold it beside the rest and a small chunk.
void place_head(const PlanInput& in, Plan& plan) {
    const uint64_t limit = in.device.limit;
    const auto need = [&] {
        const WorkspaceShape least = WorkspaceShape::plan(
            in.config, std::min(chunk_comfortable, in.options.context), in.options.context);
        return dense_bytes(in.specs) + plan.state + Workspace::bytes(in.config, least) +
               in.device.scratch(largest_shapes(in.config, least)) +
               vram_ring * in.device_slot_bytes;
    };
    if (in.device.host || need() <= limit) return;
    for (TensorSpec& spec : in.specs) {
        if (spec.name != "head.weight") continue;
        spec.home = Home::embedding;
        plan.head_on_host = true;
    }
}

// A budget that was asked for and leaves less than one token's working set is refused; what happens
// to be free today is not: then the run goes on without a cache, and says so.
Result<void> resolve_slots(const PlanInput& in, bool asked, Budget& ram, Plan& plan) {
    const ModelConfig& c = in.config;
    EngineOptions& o = in.options;
    const uint64_t slot = in.slot_bytes;
    const auto all = static_cast<uint32_t>(c.layers) * static_cast<uint32_t>(c.experts);
    const auto least = static_cast<uint32_t>(c.layers) * static_cast<uint32_t>(c.top_k);
    if (o.cache_slots) {
        plan.cache_slots = std::min(*o.cache_slots, all);
        if (plan.cache_slots > 0 && plan.cache_slots < least) {
            return fail(Code::usage, cat("an expert cache of ", plan.cache_slots,
                                         " slots is smaller than what one token uses: ", least,
                                         " slots, or 0 for none"));
        }
    } else {
        auto slots = plan_cache_slots({slot, c.layers, c.experts, c.top_k, ram.left()});
        if (!slots && asked) return tl::unexpected(slots.error());
        if (!slots) plan.warning = cat("no expert cache: ", slots.error().message);
        plan.cache_slots = slots.value_or(0);
    }
    o.cache_slots = plan.cache_slots;
    if (plan.cache_slots == 0) return {};
    return ram.take(cat("expert cache, ", plan.cache_slots, " slots"), plan.cache_slots * slot);
}

// Chunks of a prompt wait for each other in RAM, so that experts are read once for all of them.
// That takes an eighth of what is left at most, and nothing from a cache of a token's working set.
void resolve_together(const PlanInput& in, uint64_t ram_left, Plan& plan) {
    const ModelConfig& c = in.config;
    const EngineOptions& o = in.options;
    const uint64_t all = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.experts);
    const uint64_t least = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.top_k);
    const uint64_t slots = std::min(all, o.cache_slots ? *o.cache_slots : ram_left / in.slot_bytes);
    const std::string chunk = cat("prompts longer than ", o.chunk, " tokens: ");
    if (o.context <= o.chunk || slots == all || o.index_keys == IndexKeys::reference) return;
    const auto refuse = [&](const char* why) {
        plan.notes.push_back(cat(chunk, "experts are read once for every ", o.chunk, why));
    };
    if (slots == 0) return refuse(", there is no expert cache");
    const uint64_t cache = (o.cache_slots ? slots : least) * in.slot_bytes;
    const uint64_t room = std::min(ram_left / 8, ram_left - std::min(ram_left, cache));
    int32_t tokens = (o.context + o.chunk - 1) / o.chunk * o.chunk;
    const auto bytes = [&] {
        return ChunkStore::bytes(c, plan.shape, std::min(tokens, o.context)) + page_size;
    };
    while (tokens > o.chunk && bytes() > room) tokens -= o.chunk;
    if (tokens <= o.chunk) return refuse(", RAM does not hold two such chunks beside the cache");
    plan.chunk_store = bytes();
    plan.together = std::min(tokens, o.context);
    const bool whole = slots >= static_cast<uint64_t>(c.experts);
    plan.notes.push_back(cat(chunk, "experts are read once for up to ", plan.together,
                             whole ? "" : ", as far as the cache holds a layer's"));
}

void keep_lines(Plan& plan, const Budget& budget) {
    for (const BudgetLine& line : budget.lines()) {
        if (line.bytes > 0) plan.placement.push_back(line);
    }
}

struct Promise {
    Budget* budget;
    std::string what;
    uint64_t bytes;
};

Result<void> take_all(const std::vector<Promise>& promises) {
    for (const Promise& p : promises) {
        if (auto taken = p.budget->take(p.what, p.bytes); !taken) return taken;
    }
    return {};
}

}  // namespace

Shapes largest_shapes(const ModelConfig& c, const WorkspaceShape& shape) {
    int32_t rows = 0;
    for (int32_t owner : c.kv_sources) rows = std::max(rows, shape.context / c.ratios[owner]);
    return {.n = shape.chunk,
            .dim = c.hidden,
            .inner = c.moe_hidden,
            .experts = c.experts,
            .top_k = c.top_k,
            .index_rows = rows,
            .window = c.window,
            .index_topk = c.index_topk,
            .head_dim = c.head_dim,
            .heads = c.heads,
            .group_rank = c.o_rank};
}

DeviceMemory device_memory(const Backend& backend) {
    return {.host = backend.host_memory(),
            .limit = backend.memory_limit(),
            .scratch = [&backend](const Shapes& most) { return backend.reserve_bytes(most); }};
}

Result<Plan> plan_memory(const PlanInput& in) {
    EngineOptions& o = in.options;
    if (auto r = resolve_context(in); !r) return tl::unexpected(r.error());
    const bool asked = o.ram != 0;
    if (!asked) o.ram = default_ram_budget();
    Budget ram("ram", o.ram), vram("vram", in.device.limit);
    const bool host = in.device.host;
    Budget& device = host ? ram : vram;

    Plan plan{};
    plan.state = State::bytes(in.config, o.context);
    place_head(in, plan);
    plan.dense = dense_bytes(in.specs);
    plan.embedding = embedding_bytes(in.specs);
    plan.row_capacity = row_capacity;
    const uint64_t slot = in.slot_bytes;
    // Enough for a layer's experts in use, the reads in flight, and one ahead.
    plan.ring_slots = std::max(ring_slots_least, static_cast<uint32_t>(in.config.top_k) +
                                                     o.tuning.in_flight_max * folders(o) + 2);
    auto taken = take_all(
        {{&device, plan.head_on_host ? "dense weights" : "dense weights and head", plan.dense},
         {&ram, plan.head_on_host ? "embedding and head" : "embedding", plan.embedding},
         {&device, cat("state of ", o.context, " tokens"), plan.state}});
    if (!taken) return tl::unexpected(taken.error());
    resolve_chunk(in, ram.left(), vram.left(), plan);
    taken = take_all(
        {{&device, cat("workspace of ", o.chunk, " tokens"), plan.workspace + plan.scratch},
         {&ram, "engram rows", plan.row_buffers},
         {&ram, cat("experts in transit, ", plan.ring_slots, " slots"), plan.ring_slots * slot}});
    if (!taken) return tl::unexpected(taken.error());
    if (!host && o.cpu_experts != 0u) {
        taken = ram.take("experts on the CPU", CpuExperts::bytes(in.config));
        if (!taken) return tl::unexpected(taken.error());
    }
    if (!host) {
        if (auto r = resolve_vram_slots(in, vram, plan); !r) return tl::unexpected(r.error());
    }
    resolve_together(in, ram.left(), plan);
    taken = ram.take(cat("prompt chunks, ", plan.together, " tokens"), plan.chunk_store);
    if (!taken) return tl::unexpected(taken.error());
    if (auto r = resolve_slots(in, asked, ram, plan); !r) return tl::unexpected(r.error());
    keep_lines(plan, vram);
    keep_lines(plan, ram);
    return plan;
}

}  // namespace sluice
