#include "tools/plan/plan_forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

namespace {

constexpr double skew = 0.4;
// Counted in a forward pass on a GPU, per layer: operations that are small compared to their
// launch, and results fetched to the host.
constexpr double small_ops_layer = 14;
constexpr double trips_layer = 1;
constexpr double row_block = 4096;  // read from the drive for a row's codes, or for its scales

double real(uint64_t value) {
    return static_cast<double>(value);
}

// The model's sizes as the formulas want them.
struct Sizes {
    double layers, experts, top_k, dim;
    double expert, expert_read, expert_macs;
    double dense = 0, dense_macs = 0;  // without the head
    double head = 0;
    double rows;  // Engram rows a token
    double attention_macs;

    Sizes(const PlanModel& model, int32_t context) {
        const ModelConfig& c = model.config();
        layers = c.layers, experts = c.experts, top_k = c.top_k, dim = c.hidden;
        expert = real(model.expert_bytes);
        expert_read = real(model.expert_read_bytes);
        expert_macs = 3.0 * c.hidden * c.moe_hidden;
        for (const TensorSpec& spec : model.specs) {
            if (spec.head) head = real(spec_bytes(spec));
            if (spec.home != Home::dense || spec.head) continue;
            dense += real(resident_bytes(spec));
            const bool matrix = spec.shape.size() == 2 && spec.storage != Storage::e8m0;
            if (matrix) dense_macs += real(spec.shape[0]) * real(spec.shape[1]);
        }
        rows = static_cast<double>(c.engram_columns()) * static_cast<double>(model.tables.size());
        double keys = 0;  // of all layers, at the end of the context
        for (const LayerRows& rows : c.rows) {
            const int32_t all = rows.ratio == 0 ? 0 : context / rows.ratio;
            keys += c.window + (rows.chooser < 0 ? all : std::min(all, c.index_topk));
        }
        attention_macs = 2.0 * c.heads * c.head_dim * keys;
    }
};

struct Hits {
    double ram = 0, vram = 0;
};

Hits hits_of(const PlanModel& model, uint32_t ram_slots, uint32_t vram_slots, Warmth warmth) {
    if (warmth == Warmth::cold) return {};
    const auto rate = [&](uint32_t slots) {
        const double share = std::min(1.0, real(slots) / real(model.experts()));
        return warmth == Warmth::even ? share : std::pow(share, skew);
    };
    return {rate(ram_slots), rate(vram_slots)};
}

// Bringing experts to where they are computed: `asked` cross the link and `read` are read from the
// drive, except those in a cache.
void add_experts(Terms& terms, const Sizes& s, const MachineRates& rates, Hits hits, double asked,
                 double read, double drive_bytes_s) {
    terms.drive += read * (1 - hits.vram) * (1 - hits.ram) * s.expert_read / drive_bytes_s;
    if (rates.gpu) terms.link += asked * (1 - hits.vram) * s.expert / rates.link->bytes_s;
}

}  // namespace

const char* warmth_name(Warmth warmth) {
    switch (warmth) {
        case Warmth::cold:
            return "cold";
        case Warmth::even:
            return "warm, even";
        case Warmth::skewed:
            return "warm, skewed";
    }
    return "";
}

double Terms::longest() const {
    return std::max({drive, link, cpu, gpu});
}

const char* Terms::bottleneck() const {
    for (const auto& [name, term] :
         {std::pair("drive", drive), {"link", link}, {"cpu", cpu}, {"gpu", gpu}}) {
        if (term == longest()) return name;
    }
    return "";
}

Forecast forecast_decode(const PlanModel& model, const Plan& plan, const MachineRates& rates,
                         Warmth warmth) {
    const Sizes s(model, plan.settings.context);
    const Hits hits = hits_of(model, plan.settings.cache_slots, plan.settings.vram_slots, warmth);
    Forecast out{
        .warmth = warmth, .tokens = 1, .ram_hits = hits.ram, .vram_hits = hits.vram, .terms = {}};
    Terms& t = out.terms;
    const double asked = s.layers * s.top_k;
    add_experts(t, s, rates, hits, asked, asked, rates.drive.layer_bytes_s);
    t.drive += s.rows * 2 * row_block / rates.drive.layer_bytes_s;
    const KernelRates& k = rates.gpu ? *rates.gpu : rates.cpu;
    double& compute = rates.gpu ? t.gpu : t.cpu;
    compute += s.dense / k.dense_bytes_s + s.layers * s.top_k * s.expert / k.expert_bytes_s;
    compute += s.layers * (small_ops_layer * k.op_s + trips_layer * k.trip_s);
    const bool head_away = rates.gpu && plan.head_on_host;
    (head_away ? t.cpu : compute) += s.head / (head_away ? rates.cpu : k).head_bytes_s;
    return out;
}

Forecast forecast_prompt(const PlanModel& model, const Plan& plan, const MachineRates& rates,
                         Warmth warmth, int32_t tokens) {
    const Sizes s(model, plan.settings.context);
    const Hits hits = hits_of(model, plan.settings.cache_slots, plan.settings.vram_slots, warmth);
    Forecast out{.warmth = warmth,
                 .tokens = tokens,
                 .ram_hits = hits.ram,
                 .vram_hits = hits.vram,
                 .terms = {}};
    Terms& t = out.terms;
    const KernelRates& k = rates.gpu ? *rates.gpu : rates.cpu;
    double& compute = rates.gpu ? t.gpu : t.cpu;
    const auto distinct_of = [&](double m) {
        return s.experts * (1 - std::pow(1 - s.top_k / s.experts, m));
    };
    // The chunks of a group read what is new to them, and what the lent slots could not keep.
    const bool grouped = std::min(tokens, plan.chunk_group_tokens) > plan.shape.chunk;
    const double lent = grouped ? std::min(s.experts, real(plan.settings.cache_slots)) : 0;
    const Hits reading = hits_of(model, plan.settings.cache_slots - static_cast<uint32_t>(lent),
                                 plan.settings.vram_slots, warmth);
    double before = 0;  // tokens of the earlier chunks of the group
    for (int32_t done = 0; done < tokens; done += plan.shape.chunk) {
        const double m = std::min(tokens - done, plan.shape.chunk);
        const double distinct = distinct_of(m);
        if (!grouped || before + m > plan.chunk_group_tokens) before = 0;
        const double fresh = distinct_of(before + m) - distinct_of(before);
        const double again = before > 0 ? std::max(0.0, distinct - fresh - lent) : 0;
        add_experts(t, s, rates, reading, s.layers * distinct, s.layers * (fresh + again),
                    rates.drive.stream_bytes_s);
        before += m;
        t.drive += m * s.rows * 2 * row_block / rates.drive.stream_bytes_s;
        compute += std::max(s.dense / k.dense_bytes_s, m * s.dense_macs / k.dense_macs_s);
        compute += m * s.attention_macs / k.dense_macs_s;
        compute += std::max(s.layers * distinct * s.expert / k.expert_bytes_s,
                            m * s.layers * s.top_k * s.expert_macs / k.expert_macs_s);
        compute += s.layers * (small_ops_layer * k.op_s + trips_layer * k.trip_s);
    }
    const bool head_away = rates.gpu && plan.head_on_host;
    (head_away ? t.cpu : compute) += s.head / (head_away ? rates.cpu : k).head_bytes_s;
    return out;
}

}  // namespace sluice
