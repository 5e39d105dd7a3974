#include "engine/load/memory_plan.h"

#include <algorithm>
#include <limits>

#include "cache/row_cache.h"
#include "engine/forward/cpu_experts.h"
#include "engine/forward/state.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr int32_t context_default = 8192;
constexpr int32_t chunk_least = 16;
constexpr int32_t chunk_step = 64;
constexpr int32_t host_chunk_most = 2048;
constexpr int32_t device_chunk_most = 4096;
constexpr int32_t chunk_comfortable = 512;  // the head leaves room for this on a device
constexpr uint32_t vram_transit = 4;        // device slots that experts pass through, uncached
constexpr uint32_t row_capacity = 16384;    // Engram rows kept per table
constexpr uint32_t transit_slots_least = 8;
constexpr uint64_t snapshot_header = 32768;   // at most; a snapshot has 40 bytes per section
constexpr uint64_t prompt_cache_share = 16;  // at most one part in so many of the RAM budget

// Each folder counts as a drive with its own reads in flight; a mirror serves reads of the others.
uint32_t folders(const EngineOptions& options) {
    return std::max<uint32_t>(1, static_cast<uint32_t>(options.locations.size()));
}

uint32_t drives(const EngineOptions& options) {
    return folders(options) + static_cast<uint32_t>(options.mirrors.size());
}

Result<void> resolve_context(const PlanInput& in, Settings& s) {
    const EngineOptions& o = in.options;
    if (o.context < 0 || o.context > in.config.positions_max) {
        return fail(Code::usage,
                    cat("-c: a context of ", o.context,
                        " tokens is outside the model's range, 1 to ", in.config.positions_max));
    }
    s.context = o.context != 0 ? o.context : std::min(in.config.positions_max, context_default);
    if (o.chunk < 0) {
        return fail(Code::usage, cat("--chunk ", o.chunk, ": must be at least 1 token"));
    }
    return {};
}

// Of any sequence that fits the context: pools of open groups shrink where a group ends.
uint64_t largest_snapshot(const ModelConfig& c, int32_t context) {
    uint64_t most = 0;
    for (int32_t less = 0; less < std::min(c.largest_ratio(), context); ++less) {
        most = std::max(most, State::snapshot_bytes(c, context - less));
    }
    return most + snapshot_header;
}

void size_chunk(const PlanInput& in, int32_t chunk, Plan& plan) {
    plan.shape = WorkspaceShape::plan(in.config, chunk, plan.settings.context);
    plan.workspace = Workspace::bytes(in.config, plan.shape);
    plan.scratch = in.device.scratch(largest_shapes(in.config, plan.shape));
    plan.row_buffers = RowBuffers::bytes(in.config, chunk);
    const auto rows_max = static_cast<uint32_t>(chunk * in.config.engram_columns());
    for (const RowTable& table : in.tables) {
        plan.row_buffers += RowCache::memory(table, plan.row_capacity, rows_max) +
                            row_stage_bytes(table) * in.options.ring_depth * drives(in.options) / 2;
    }
}

// With the reference's index keys the result depends on where a prompt is cut, so it must be one
// chunk (deepseek-v41.md section 3.7).
int32_t least_chunk(const EngineOptions& o, int32_t context) {
    if (o.chunk != 0) return std::min(o.chunk, context);
    return o.index_keys == IndexKeys::reference ? context : std::min(chunk_least, context);
}

// The largest chunk that fits, since a prompt's experts cross the link, and may be read, once per
// chunk. In VRAM the chunk takes precedence over the expert cache, which is of little use until it
// holds a token's experts. `fits` judges the plan with its present chunk.
void resolve_chunk(const PlanInput& in, const std::function<bool()>& fits, Plan& plan) {
    const EngineOptions& o = in.options;
    const int32_t context = plan.settings.context;
    const int32_t least = least_chunk(o, context);
    const bool free_choice = o.chunk == 0 && o.index_keys != IndexKeys::reference;
    int32_t chunk = least;
    if (free_choice) {
        chunk = std::min(in.device.host ? host_chunk_most : device_chunk_most, context);
    }
    size_chunk(in, chunk, plan);
    while (chunk > least && !fits()) {
        chunk = chunk > chunk_step ? (chunk - 1) / chunk_step * chunk_step
                                   : std::max(chunk_least, chunk / 2);
        size_chunk(in, chunk, plan);
    }
    plan.settings.chunk = chunk;
}

// The rest of VRAM holds experts.
Result<void> resolve_vram_slots(const PlanInput& in, Budget& vram, Plan& plan) {
    const ModelConfig& c = in.config;
    const uint64_t slot = in.device_slot_bytes;
    const auto all = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.experts);
    uint64_t slots = std::min(all, vram.left() / slot);
    if (in.options.vram_slots) {
        if (*in.options.vram_slots > slots) {
            return fail(Code::no_memory, cat("--vram-slots ", *in.options.vram_slots,
                                             ": VRAM has room for at most ", slots));
        }
        slots = *in.options.vram_slots;
    }
    plan.settings.vram_slots = static_cast<uint32_t>(slots);
    return vram.take(cat("expert cache, ", slots, " slots"), slots * slot);
}

// Moves the head to RAM if VRAM could not hold it beside the rest and a small chunk.
void place_head(const PlanInput& in, Plan& plan) {
    const int32_t context = plan.settings.context;
    const auto need = [&] {
        const WorkspaceShape least =
            WorkspaceShape::plan(in.config, std::min(chunk_comfortable, context), context);
        return dense_bytes(plan.specs) + plan.state + Workspace::bytes(in.config, least) +
               in.device.scratch(largest_shapes(in.config, least)) +
               vram_transit * in.device_slot_bytes;
    };
    if (in.device.host || need() <= in.device.limit) return;
    for (TensorSpec& spec : plan.specs) {
        if (!spec.head) continue;
        spec.home = Home::host;
        plan.head_on_host = true;
    }
}

uint32_t all_experts(const ModelConfig& c) {
    return static_cast<uint32_t>(c.layers) * static_cast<uint32_t>(c.experts);
}

uint32_t token_experts(const ModelConfig& c) {
    return static_cast<uint32_t>(c.layers) * static_cast<uint32_t>(c.top_k);
}

// Refuses a cache that would hold less than one token's working set.
Result<void> check_slots(const PlanInput& in) {
    const auto& asked = in.options.cache_slots;
    const uint32_t least = token_experts(in.config);
    if (!asked || *asked == 0 || *asked >= least) return {};
    return fail(Code::usage, cat("--cache-slots ", *asked, ": one token uses ", least,
                                 " experts, and a smaller cache evicts them before they are used; "
                                 "give at least that many, or off"));
}

// A budget given by the user must hold a token's working set. With the default budget, which
// depends on what is free, the run goes on without a cache and warns.
Result<void> resolve_slots(const PlanInput& in, bool asked, Budget& ram, Plan& plan) {
    const ModelConfig& c = in.config;
    const uint64_t slot = in.slot_bytes;
    uint32_t& kept = plan.settings.cache_slots;
    if (in.options.cache_slots) {
        kept = std::min(*in.options.cache_slots, all_experts(c));
    } else {
        auto slots = plan_cache_slots({slot, c.layers, c.experts, c.top_k, ram.left()});
        if (!slots && asked) return tl::unexpected(slots.error());
        if (!slots) plan.warning = cat("no expert cache: ", slots.error().message);
        kept = slots.value_or(0);
    }
    if (kept == 0) return {};
    return ram.take(cat("expert cache, ", kept, " slots"), kept * slot);
}

// The chunks of a group wait in RAM between layers, so that experts are read once for all of them.
// Takes at most an eighth of what is left, and nothing that a token's working set needs.
void resolve_chunk_group(const PlanInput& in, uint64_t ram_left, Plan& plan) {
    const ModelConfig& c = in.config;
    const EngineOptions& o = in.options;
    const uint64_t all = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.experts);
    const uint64_t least = static_cast<uint64_t>(c.layers) * static_cast<uint64_t>(c.top_k);
    const uint64_t slots = std::min(all, o.cache_slots ? *o.cache_slots : ram_left / in.slot_bytes);
    const int32_t context = plan.settings.context;
    const int32_t chunk = plan.settings.chunk;
    const std::string prompts = cat("prompts longer than ", chunk, " tokens: ");
    if (context <= chunk || slots == all || o.index_keys == IndexKeys::reference) return;
    const auto refuse = [&](const char* why) {
        plan.notes.push_back(cat(prompts, "experts are read again every ", chunk, " tokens", why));
    };
    if (slots == 0) return refuse(", because there is no expert cache");
    const uint64_t cache = (o.cache_slots ? slots : least) * in.slot_bytes;
    const uint64_t room = std::min(ram_left / 8, ram_left - std::min(ram_left, cache));
    int32_t tokens = (context + chunk - 1) / chunk * chunk;
    const auto bytes = [&] {
        return ChunkStore::bytes(c, plan.shape, std::min(tokens, context)) + page_size;
    };
    while (tokens > chunk && bytes() > room) tokens -= chunk;
    if (tokens <= chunk)
        return refuse(", because RAM cannot hold two such chunks besides the cache");
    plan.chunk_store = bytes();
    plan.chunk_group_tokens = std::min(tokens, context);
    const bool whole = slots >= static_cast<uint64_t>(c.experts);
    plan.notes.push_back(
        cat(prompts, "experts are read once for up to ", plan.chunk_group_tokens,
            whole ? " tokens" : " tokens, as far as the cache holds a layer's experts"));
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

uint64_t sum(const std::vector<Promise>& promises, const Budget* budget) {
    uint64_t bytes = 0;
    for (const Promise& p : promises) bytes += p.budget == budget ? p.bytes : 0;
    return bytes;
}

// RAM, and the memory of the device where it has its own.
struct Budgets {
    Budget ram, vram;
    bool ram_asked, vram_asked;
    bool host;
    Budget* device() { return host ? &ram : &vram; }
};

// Snapshots of prompts take a small part of RAM, and nothing that the smallest expert caches need.
Result<void> resolve_prompt_cache(const PlanInput& in, Budgets& b, uint64_t caches, Plan& plan) {
    const uint32_t wanted = in.options.prompt_snapshots;
    if (wanted == 0 || in.options.index_keys == IndexKeys::reference) return {};
    const uint64_t token = token_experts(in.config) * in.slot_bytes;
    uint64_t kept = in.options.cache_slots ? caches : std::max(caches, token);
    if (kept > b.ram.left()) kept = caches;  // no expert cache in any case
    const uint64_t free = b.ram.left() - std::min(b.ram.left(), kept);
    const uint64_t most = std::min(b.ram.limit() / prompt_cache_share, free);
    // One of them is being made or read while the others are kept.
    if (most < 2 * plan.snapshot) {
        plan.notes.push_back(cat("no prompt cache: a state of ", plan.settings.context,
                                 " tokens is too large for the RAM budget"));
        return {};
    }
    plan.settings.prompt_cache_ram = std::min(most, wanted * plan.snapshot);
    return b.ram.take("prompt cache", plan.settings.prompt_cache_ram);
}

// What the model takes whatever the chunk size.
std::vector<Promise> model_promises(const Plan& plan, Budgets& b) {
    return {
        {b.device(), plan.head_on_host ? "dense weights" : "dense weights and head", plan.dense},
        {&b.ram, plan.head_on_host ? "embedding and head" : "embedding", plan.embedding},
        {b.device(), cat("state of ", plan.settings.context, " tokens"), plan.state}};
}

// What a pass takes; depends on the chunk size.
std::vector<Promise> pass_promises(const PlanInput& in, const Plan& plan, Budgets& b) {
    std::vector<Promise> out = {{b.device(), cat("workspace of ", plan.shape.chunk, " tokens"),
                                 plan.workspace + plan.scratch},
                                {&b.ram, "engram rows", plan.row_buffers},
                                {&b.ram, cat("experts in transit, ", plan.transit_slots, " slots"),
                                 plan.transit_slots * in.slot_bytes}};
    if (b.host) return out;
    if (in.options.cpu_experts != 0u) {
        out.push_back({&b.ram, "experts on the CPU", CpuExperts::bytes(in.config)});
    }
    out.push_back({&b.vram, cat("experts in transit, ", plan.vram_transit_slots, " slots"),
                   plan.vram_transit_slots * in.device_slot_bytes});
    return out;
}

// The smallest expert caches that the run may start with.
std::vector<Promise> cache_promises(const PlanInput& in, Budgets& b) {
    const EngineOptions& o = in.options;
    std::vector<Promise> out;
    uint64_t slots = b.ram_asked ? token_experts(in.config) : 0;
    if (o.cache_slots) slots = std::min(*o.cache_slots, all_experts(in.config));
    if (slots > 0) {
        out.push_back({&b.ram, cat("expert cache, ", slots, " slots"), slots * in.slot_bytes});
    }
    if (b.host || !o.vram_slots) return out;
    const uint64_t kept = std::min(*o.vram_slots, all_experts(in.config));
    out.push_back({&b.vram, cat("expert cache, ", kept, " slots"), kept * in.device_slot_bytes});
    return out;
}

// Rounded up, so that the size is enough when the user gives it.
std::string at_least(uint64_t bytes) {
    return cat((bytes + (1u << 20) - 1) >> 20, "MiB");
}

// Checks the smallest split that the options allow; an error names every budget that is too small,
// its parts and the size that would be enough.
Result<void> check_least(const PlanInput& in, Plan plan, Budgets& b) {
    size_chunk(in, least_chunk(in.options, plan.settings.context), plan);
    std::vector<Promise> all = model_promises(plan, b);
    for (auto& p : pass_promises(in, plan, b)) all.push_back(std::move(p));
    const std::vector<Promise> caches = cache_promises(in, b);
    all.insert(all.end(), caches.begin(), caches.end());
    std::string short_of;
    for (Budget* budget : {&b.vram, &b.ram}) {
        const uint64_t needed = sum(all, budget);
        if (needed <= budget->limit()) continue;
        const bool ram = budget == &b.ram;
        const std::string flag = ram ? "--ram" : "--vram";
        const bool asked = ram ? b.ram_asked : b.vram_asked;
        std::string parts;
        for (const Promise& p : all) {
            if (p.budget != budget || p.bytes == 0) continue;
            parts += cat(parts.empty() ? "" : " + ", p.what, " ", size_text(p.bytes));
        }
        const std::string have = size_text(budget->limit());
        short_of += cat(short_of.empty() ? "" : "; ",
                        asked ? cat(flag, " ", have, " is too small: ")
                              : cat("only ", have, ram ? " of RAM" : " of VRAM",
                                    " is available (what is free, less a margin): "),
                        at_least(needed), " is needed in total (", parts, ")");
        if (const uint64_t cache = sum(caches, budget); cache > 0) {
            short_of += cat(", or ", at_least(needed - cache), " with ",
                            ram ? "--cache-slots off" : "--vram-slots off");
        }
    }
    if (short_of.empty()) return {};
    return fail(Code::no_memory, short_of);
}

}  // namespace

Shapes largest_shapes(const ModelConfig& c, const WorkspaceShape& shape) {
    return {.n = shape.chunk,
            .dim = c.hidden,
            .inner = c.moe_hidden,
            .experts = c.experts,
            .top_k = c.top_k,
            .index_rows = c.compressed_rows(shape.context),
            .window = c.window,
            .attended_rows = c.attended_rows(shape.context),
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
    const EngineOptions& o = in.options;
    Plan plan{};
    Settings& s = plan.settings;
    s.tuning = o.tuning;
    if (auto r = resolve_context(in, s); !r) return tl::unexpected(r.error());
    if (auto r = check_slots(in); !r) return tl::unexpected(r.error());
    const bool asked = o.ram != 0;
    s.ram = asked ? o.ram : default_ram_budget();
    s.vram = in.device.host ? 0 : in.device.limit;
    Budgets b{Budget("ram", s.ram), Budget("vram", in.device.limit), asked, o.vram != 0,
              in.device.host};

    plan.specs = in.specs;
    plan.state = State::bytes(in.config, s.context);
    plan.snapshot = largest_snapshot(in.config, s.context);
    place_head(in, plan);
    plan.dense = dense_bytes(plan.specs);
    plan.embedding = host_bytes(plan.specs);
    plan.row_capacity = row_capacity;
    // Enough for the experts of a layer in use, the reads in flight and one ahead.
    plan.transit_slots = std::max(transit_slots_least, static_cast<uint32_t>(in.config.top_k) +
                                                           o.tuning.in_flight_max * folders(o) + 2);
    plan.vram_transit_slots = b.host ? 0 : vram_transit;
    if (auto r = check_least(in, plan, b); !r) return tl::unexpected(r.error());

    auto taken = take_all(model_promises(plan, b));
    if (!taken) return tl::unexpected(taken.error());
    const std::vector<Promise> caches = cache_promises(in, b);
    const auto fits = [&] {
        const std::vector<Promise> pass = pass_promises(in, plan, b);
        const uint64_t rows = plan.row_buffers + (b.host ? plan.workspace : 0);
        return rows <= b.ram.left() / 4 &&
               sum(pass, &b.ram) + sum(caches, &b.ram) <= b.ram.left() &&
               sum(pass, &b.vram) + sum(caches, &b.vram) <= b.vram.left();
    };
    resolve_chunk(in, fits, plan);
    taken = take_all(pass_promises(in, plan, b));
    if (!taken) return tl::unexpected(taken.error());
    taken = resolve_prompt_cache(in, b, sum(caches, &b.ram), plan);
    if (!taken) return tl::unexpected(taken.error());
    if (!b.host) {
        if (auto r = resolve_vram_slots(in, b.vram, plan); !r) return tl::unexpected(r.error());
    }
    resolve_chunk_group(in, b.ram.left(), plan);
    taken =
        b.ram.take(cat("prompt chunks, ", plan.chunk_group_tokens, " tokens"), plan.chunk_store);
    if (!taken) return tl::unexpected(taken.error());
    if (auto r = resolve_slots(in, asked, b.ram, plan); !r) return tl::unexpected(r.error());
    keep_lines(plan, b.vram);
    keep_lines(plan, b.ram);
    return plan;
}

}  // namespace sluice
