#include "engine/load/load.h"

#include <algorithm>
#include <charconv>

#include "engine/load/calibrate.h"
#include "engine/load/device_check.h"
#include "engine/load/read_ring.h"
#include "engine/load/tokenizer_check.h"
#include "engine/model/rope.h"
#include "io/log.h"
#include "io/ring/ring_paced.h"
#include "io/text.h"
#include "kernels/paced_link.h"

namespace sluice {

namespace {

constexpr uint64_t generation_config_limit = 1u << 20;

// Names the file of `error`; a damaged one has to be fetched again.
tl::unexpected<Error> located(const Checkpoint& checkpoint, const std::filesystem::path& path,
                              Error error) {
    if (error.code == Code::corrupt) {
        error.message += cat("; ", checkpoint.cure({path.filename().string()}));
    }
    return within(printable(path.string()), std::move(error));
}

Result<void> read_config(Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    std::string generation;
    const auto& generation_path = rt.checkpoint.generation_config_path();
    if (!generation_path.empty()) {
        auto text = read_text(generation_path, generation_config_limit);
        if (!text) return tl::unexpected(text.error());
        generation = std::move(*text);
    }
    const auto& path = rt.checkpoint.config_path();
    auto config = parse_config(rt.checkpoint.config_text());
    if (!config) return located(rt.checkpoint, path, config.error());
    rt.config = std::move(*config);
    if (generation.empty()) return {};
    auto joined = join_generation_config(generation, rt.config);
    if (!joined) return located(rt.checkpoint, generation_path, joined.error());
    return {};
}

Result<void> read_tokenizer(Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    const auto& path = rt.checkpoint.tokenizer_path();
    if (path.empty()) {
        return fail(Code::not_found,
                    cat(printable(rt.checkpoint.folder().string()), ": tokenizer.json is missing; ",
                        rt.checkpoint.cure({"tokenizer.json"})));
    }
    auto tokenizer = Tokenizer::load(path);
    if (!tokenizer) {
        Error error = tokenizer.error();
        if (error.code == Code::corrupt) {
            error.message += cat("; ", rt.checkpoint.cure({"tokenizer.json"}));
        }
        return tl::unexpected(std::move(error));
    }
    if (auto ok = check_tokenizer(*tokenizer, *rt.model->chat->tokens, rt.config); !ok) {
        return within(printable(rt.checkpoint.config_path().string()), std::move(ok).error());
    }
    loaded.tokenizer.emplace(std::move(*tokenizer));
    // This token ends an answer whether or not the configs list it.
    if (const auto end = loaded.tokenizer->id(rt.model->chat->tokens->end)) {
        auto& all = rt.config.end_tokens;
        if (std::find(all.begin(), all.end(), *end) == all.end()) all.push_back(*end);
    }
    if (rt.config.engram_layers.empty()) return {};
    const std::string config = printable(rt.checkpoint.config_path().string());
    auto map = compressed_token_map(*loaded.tokenizer, rt.config);
    if (!map) return within(config, map.error());
    auto hash = EngramHash::create(rt.config, std::move(*map));
    if (!hash) return within(config, hash.error());
    rt.engram.hash.emplace(std::move(*hash));
    return {};
}

Result<std::unique_ptr<Backend>> open_cpu(const EngineOptions& options) {
    return make_cpu_backend({.isa = options.isa, .threads = options.threads});
}

}  // namespace

Result<int> cuda_index(const std::string& device) {
    if (device == "auto" || device == "cpu" || device == "cuda") return 0;
    int index = -1;
    if (device.starts_with("cuda:")) {
        const char* end = device.data() + device.size();
        const auto parsed = std::from_chars(device.data() + 5, end, index);
        if (parsed.ec == std::errc() && parsed.ptr == end && index >= 0) return index;
    }
    return fail(Code::usage,
                cat("--device ", printable(device), ": expected auto, cpu, cuda or cuda:N"));
}

Result<void> refuse_gpu_options(const EngineOptions& options) {
    if (!options.gpu_option.empty()) {
        return fail(Code::usage, cat(options.gpu_option,
                                     " is given, but the run is on the CPU; omit it, or choose a "
                                     "GPU with --device cuda"));
    }
    return {};
}

namespace {

// A GPU that cannot be used, under the flag that asks for it.
tl::unexpected<Error> unusable(const std::string& device, Error error) {
    if (error.code != Code::device || device == "cpu") {
        return tl::unexpected(std::move(error));
    }
    return within(cat("--device ", device, " (--device cpu runs without a GPU)"), std::move(error));
}

// "auto" takes a GPU if there is one. A GPU that does not start is an error, never a silent run on
// the CPU. Returns the device's name: "cpu", "cuda" or "cuda:N".
Result<std::string> open_backend(Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    const EngineOptions& o = rt.options;
    std::string device = o.device;
    const auto index = cuda_index(o.device);
    if (!index) return tl::unexpected(index.error());
    if (o.device == "auto") {
        auto devices = cuda_devices();
        if (!devices) {
            return within("--device auto (--device cpu runs without a GPU)", devices.error());
        }
        device = devices->empty() ? "cpu" : "cuda";
        loaded.notes.push_back(cat("device chosen: ", device));
    }
    if (device != "cpu" && o.skip_selftest) {
        loaded.notes.push_back("the self-test of the GPU kernels is skipped");
    } else if (device != "cpu") {
        auto checked = check_device({.device = *index, .again = false, .test = {}});
        if (!checked) return unusable(device, checked.error());
        loaded.notes.push_back(checked->note);
    }
    if (device == "cpu") {
        if (auto r = refuse_gpu_options(o); !r) return tl::unexpected(r.error());
    }
    auto backend = device == "cpu" ? open_cpu(o)
                                   : make_cuda_backend({.device = *index,
                                                        .vram_budget = o.vram,
                                                        .graphs = o.graphs,
                                                        .overlap = o.kernels_overlap});
    if (!backend) return unusable(device, backend.error());
    rt.backend = std::move(*backend);
    return device;
}

Result<void> open_device(Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    rt.settings.device = rt.options.device;
    if (rt.options.open_device) {
        auto backend = rt.options.open_device();
        if (!backend) return tl::unexpected(backend.error());
        rt.backend = std::move(*backend);
    } else {
        auto device = open_backend(loaded);
        if (!device) return tl::unexpected(device.error());
        rt.settings.device = std::move(*device);
    }
    if (rt.options.link_rate == 0) return {};
    rt.backend = make_paced_link(std::move(rt.backend), static_cast<double>(rt.options.link_rate));
    return {};
}

// Beside a device with its own memory, the CPU computes experts too where that is faster.
Result<void> open_cpu_experts(Loaded& loaded, const Plan& plan) {
    Runtime& rt = loaded.runtime;
    const EngineOptions& o = rt.options;
    if (rt.backend->host_memory() || o.cpu_experts == 0u) return {};
    const int32_t rows = std::min(plan.shape.chunk, CpuExperts::rows_max);
    auto cpu = CpuExperts::create({.isa = o.isa,
                                   .threads = o.threads,
                                   .share = o.cpu_experts,
                                   .held_max = std::max<size_t>(1, plan.transit_slots / 2 - 1),
                                   .expert_bytes = rt.experts->expert_bytes({0, 0})},
                                  rt.config, exchange_places(rt.config, rows).end);
    if (!cpu) return tl::unexpected(cpu.error());
    rt.tiers.cpu = std::move(*cpu);
    loaded.notes.push_back(
        cat("experts on the CPU beside the GPU: ", rt.tiers.cpu->name(),
            o.cpu_experts ? cat(", ", *o.cpu_experts, " % of those not in VRAM")
                          : std::string(", share set by the measured speed of link and CPU")));
    return {};
}

Result<void> open_ring(Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    auto opened = open_read_ring(rt.checkpoint, rt.options);
    if (!opened) return tl::unexpected(opened.error());
    rt.ring = std::move(opened->ring);
    loaded.io_name = std::move(opened->name);
    loaded.direct = opened->direct;
    return {};
}

// Memory and caches for rows of the Engram tables.
Result<void> open_rows(Runtime& rt, const Plan& plan) {
    const int32_t chunk = plan.shape.chunk;
    auto memory =
        PageBuffer::create(RowBuffers::bytes(rt.config, chunk) + page_size, "engram rows");
    if (!memory) return tl::unexpected(memory.error());
    rt.row_memory = std::move(*memory);
    rt.engram.buffers = RowBuffers(rt.config, chunk, rt.row_memory.data());
    const auto rows_max = static_cast<uint32_t>(chunk * rt.config.engram_columns());
    for (const RowTable& table : rt.weights.tables) {
        rt.engram.caches.push_back(
            std::make_unique<RowCache>(*rt.ring, table, plan.row_capacity, rows_max));
    }
    return {};
}

Result<void> open_chunk_store(Runtime& rt, const Plan& plan) {
    if (plan.chunk_group_tokens == 0) return {};
    auto memory = PageBuffer::create(plan.chunk_store, "prompt chunks");
    if (!memory) return tl::unexpected(memory.error());
    rt.chunk_memory = std::move(*memory);
    rt.chunk_store.emplace(rt.config, plan.shape, plan.chunk_group_tokens, rt.chunk_memory.data());
    return rt.backend->pin(rt.chunk_memory.span());
}

// Decides how experts are read from here on; the dense weights are loaded by now.
Result<void> calibrate_reads(Loaded& loaded, std::span<std::byte> slots,
                             const LoadControl& control) {
    Runtime& rt = loaded.runtime;
    auto chosen =
        calibrate(rt.checkpoint, rt.options, loaded.direct, static_cast<uint32_t>(rt.config.top_k),
                  *rt.experts, *rt.ring, slots, control.cancel);
    if (!chosen) return tl::unexpected(chosen.error());
    rt.settings.tuning = chosen->tuning;
    loaded.notes.push_back(chosen->note);
    loaded.facts.reads = std::move(chosen->note);
    loaded.facts.drive_bytes_s = chosen->bytes_s;
    if (!rt.options.paces.empty()) {
        loaded.facts.drive_bytes_s = paced_bytes_s(rt.options.paces, rt.checkpoint.drives());
    }
    return {};
}

// The expert slots in RAM, registered with ring and backend. The dense weights pass through them
// before they hold any expert.
Result<std::span<std::byte>> open_slots(Runtime& rt, const Plan& plan) {
    const uint64_t slots = uint64_t{plan.settings.cache_slots} + plan.transit_slots;
    const uint64_t bytes = slots * rt.experts->slot_bytes();
    auto memory = PageBuffer::create(bytes, "expert cache");
    if (!memory) return tl::unexpected(memory.error());
    rt.expert_memory = std::move(*memory);
    const std::span<std::byte> span = rt.expert_memory.span().first(bytes);
    if (auto added = rt.ring->add_memory(span); !added) return tl::unexpected(added.error());
    if (auto pinned = rt.backend->pin(span); !pinned) return tl::unexpected(pinned.error());
    return span;
}

Result<void> open_cache(Loaded& loaded, const Plan& plan, std::span<std::byte> span,
                        const LoadControl& control) {
    Runtime& rt = loaded.runtime;
    const EngineOptions& o = rt.options;
    if (auto r = calibrate_reads(loaded, span, control); !r) return r;
    auto cache = ExpertCache::create({.cache_slots = plan.settings.cache_slots,
                                      .transit_slots = plan.transit_slots,
                                      .policy = o.cache_policy,
                                      .seed = o.seed},
                                     *rt.experts, *rt.ring, span);
    if (!cache) return tl::unexpected(cache.error());
    rt.tiers.cache = std::move(*cache);
    if (rt.backend->host_memory()) return {};
    auto tier =
        DeviceExperts::create({.cache_slots = plan.settings.vram_slots,
                               .transit_slots = plan.vram_transit_slots,
                               .policy = o.cache_policy,
                               .seed = o.seed},
                              *rt.experts, *rt.backend, rt.config.moe_hidden, rt.config.hidden);
    if (!tier) return tl::unexpected(tier.error());
    rt.tiers.device = std::move(*tier);
    rt.tiers.uploading_max = std::max<size_t>(1, plan.transit_slots / 2);
    return {};
}

Result<void> open_prediction(Runtime& rt) {
    const EngineOptions& o = rt.options;
    auto predictor = make_predictor(o.predictor, rt.config.layers);
    if (!predictor) return tl::unexpected(predictor.error());
    rt.tiers.predictor = std::move(*predictor);
    if (!o.prefetch) {
        rt.tiers.drives_per_layer = rt.experts->drives_per_layer();
        const auto piece = static_cast<double>(rt.experts->tuning().prefetch_piece);
        rt.tiers.governor = std::make_unique<PrefetchGovernor>(
            rt.config.layers, PrefetchGovernor::guesses_max,
            piece / static_cast<double>(rt.experts->slot_bytes()));
    }
    if (o.record_routes.empty()) return {};
    auto recorder = RouteRecorder::create(o.record_routes,
                                          {.layers = rt.config.layers,
                                           .experts = rt.config.experts,
                                           .top_k = rt.config.top_k,
                                           .expert_bytes = rt.experts->expert_bytes({0, 0}),
                                           .model = rt.checkpoint.folder().filename().string()});
    if (!recorder) return tl::unexpected(recorder.error());
    rt.recorder = std::move(*recorder);
    return {};
}

Result<void> fill(Loaded& loaded, const Plan& plan, const LoadControl& control) {
    Runtime& rt = loaded.runtime;
    if (plan.head_on_host) {
        auto cpu = open_cpu(rt.options);
        if (!cpu) return tl::unexpected(cpu.error());
        rt.head_backend = std::move(*cpu);
        loaded.notes.push_back(
            "the head does not fit into the VRAM budget, so the CPU computes it");
    }
    if (auto r = rt.backend->reserve(largest_shapes(rt.config, plan.shape)); !r) return r;
    auto embedding = PageBuffer::create(plan.embedding, "embedding");
    if (!embedding) return tl::unexpected(embedding.error());
    rt.embedding = std::move(*embedding);
    auto slots = open_slots(rt, plan);
    if (!slots) return tl::unexpected(slots.error());
    auto weights = load_weights(rt.checkpoint, plan.specs, *rt.ring, *rt.backend,
                                rt.embedding.span(), *slots, control);
    if (!weights) return tl::unexpected(weights.error());
    if (rt.model->check_weights) {
        auto sound = rt.model->check_weights(rt.checkpoint, rt.config, rt.weights);
        if (!sound) return sound;
    }
    loaded.facts.bytes = weights->bytes;
    loaded.facts.seconds = weights->seconds;
    auto state = rt.backend->allocate(plan.state, "state");
    if (!state) return tl::unexpected(state.error());
    rt.state.emplace(rt.config, rt.settings.context, *rt.backend, *state);
    auto workspace = rt.backend->allocate(plan.workspace, "workspace");
    if (!workspace) return tl::unexpected(workspace.error());
    auto lists = rt.backend->allocate_shared(Workspace::list_bytes(rt.config, plan.shape), "lists");
    if (!lists) return tl::unexpected(lists.error());
    rt.workspace.emplace(rt.config, plan.shape, *workspace, *lists);
    if (auto r = open_rows(rt, plan); !r) return r;
    if (auto r = open_chunk_store(rt, plan); !r) return r;
    if (auto r = open_cache(loaded, plan, *slots, control); !r) return r;
    if (auto r = open_cpu_experts(loaded, plan); !r) return r;
    return open_prediction(rt);
}

Result<void> check_index_keys(const EngineOptions& options, const ModelDescription& model) {
    if (options.index_keys == IndexKeys::own || model.late_index_keys) return {};
    return fail(Code::usage, cat("--index-keys reference: has no meaning for ", model.title,
                                 ", whose index keys are never late; omit it"));
}

}  // namespace

Result<Described> describe_model(const EngineOptions& options, Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    rt.options = options;
    auto checkpoint = Checkpoint::open(
        {.locations = options.locations, .revision = options.revision, .mirrors = options.mirrors});
    if (!checkpoint) return tl::unexpected(checkpoint.error());
    rt.checkpoint = std::move(*checkpoint);
    loaded.notes = rt.checkpoint.notes();
    if (auto r = read_config(loaded); !r) return tl::unexpected(r.error());

    auto model = find_model(rt.config.model_type);
    if (!model) return tl::unexpected(model.error());
    rt.model = *model;
    if (auto r = check_index_keys(options, *rt.model); !r) return tl::unexpected(r.error());
    std::vector<TensorSpec> specs = rt.model->describe(rt.config, rt.weights);
    rt.experts.emplace(rt.config.layers, rt.config.experts, rt.checkpoint.shards(), options.tuning,
                       rt.checkpoint.copies());
    auto checked =
        check_tensors(rt.checkpoint, rt.config, *rt.model, specs, rt.weights, *rt.experts);
    if (!checked) return tl::unexpected(checked.error());
    loaded.notes.insert(loaded.notes.end(), checked->notes.begin(), checked->notes.end());
    return Described{std::move(specs), std::move(checked->classes)};
}

Result<void> load_model(const EngineOptions& options, const LoadControl& control, Loaded& loaded) {
    Runtime& rt = loaded.runtime;
    auto described = describe_model(options, loaded);
    if (!described) return tl::unexpected(described.error());
    if (auto r = read_tokenizer(loaded); !r) return r;

    rt.plain_frequencies = rope_frequencies(rt.config.rope_base, rt.config.rope_dim);
    rt.yarn_frequencies =
        yarn_frequencies(rt.config.compressed_rope_base, rt.config.rope_dim, rt.config.yarn);
    if (auto r = open_device(loaded); !r) return r;
    if (auto r = open_ring(loaded); !r) return r;
    if (const uint64_t ram = rt.options.ram; ram != 0) {
        if (auto r = check_ram(ram, available_ram()); !r) return r;
    }
    auto plan = plan_memory({.config = rt.config,
                             .options = rt.options,
                             .specs = described->specs,
                             .tables = rt.weights.tables,
                             .slot_bytes = rt.experts->slot_bytes(),
                             .device_slot_bytes = DeviceExperts::slot_bytes(*rt.experts),
                             .device = device_memory(*rt.backend)});
    if (!plan) return tl::unexpected(plan.error());
    if (!plan->warning.empty()) log::warn(plan->warning);
    loaded.placement = plan->placement;
    loaded.notes.insert(loaded.notes.end(), plan->notes.begin(), plan->notes.end());
    const std::string device = std::move(rt.settings.device);
    rt.settings = plan->settings;
    rt.settings.device = device;
    return fill(loaded, *plan, control);
}

}  // namespace sluice
