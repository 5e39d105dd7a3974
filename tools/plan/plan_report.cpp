#include "tools/plan/plan_report.h"

#include <algorithm>

#include "engine/forward/state.h"
#include "io/format.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"

namespace sluice {

namespace {

const char* home_text(const PlanReport& report, const TensorClass& c) {
    switch (c.home) {
        case Home::dense:
            if (c.name == "head" && report.plan.head_on_host) return "RAM";
            return report.plan.settings.vram > 0 ? "VRAM" : "RAM";
        case Home::host:
            return "RAM";
        case Home::table:
            return "drive, cached";
        case Home::unused:
            return "not used";
    }
    return "";
}

// Memory that one more token of context takes, at the planned context.
double state_bytes_token(const PlanReport& report) {
    const ModelConfig& c = report.model->config();
    const int32_t context = report.plan.settings.context, less = std::max(1, context / 2);
    if (context <= less) return static_cast<double>(report.plan.state);
    return static_cast<double>(State::bytes(c, context) - State::bytes(c, less)) / (context - less);
}

uint64_t all_bytes(const PlanModel& model) {
    uint64_t sum = 0;
    for (const TensorClass& c : model.classes) sum += c.bytes;
    return sum;
}

std::string classes_text(const PlanReport& r) {
    const PlanModel& m = *r.model;
    size_t width = 24;
    for (const TensorClass& c : m.classes) width = std::max(width, c.name.size());
    std::string out = formatted("{:<{}} {:>9} {:>12} {:>17}  {}\n", "class of tensors", width,
                                "tensors", "size", "bytes", "kept in");
    for (const TensorClass& c : m.classes) {
        out += formatted("{:<{}} {:>9} {:>12} {:>17}  {}\n", c.name, width, c.tensors,
                         size_text(c.bytes), c.bytes, home_text(r, c));
    }
    const uint64_t all = all_bytes(m);
    out += formatted("{:<{}} {:>9} {:>12} {:>17}\n", "total", width, "", size_text(all), all);
    out += formatted("one expert: {}; {} in total; each token uses {}, {}\n",
                     size_text(m.expert_bytes), m.experts(), m.token_experts(),
                     size_text(m.token_experts() * m.expert_bytes));
    out += formatted("state of a conversation: {} for -c {}; {:.0f} bytes per token\n",
                     size_text(r.plan.state), r.plan.settings.context, state_bytes_token(r));
    out += formatted("snapshot of it (--prompt-cache): at most {} for -c {}\n",
                     size_text(r.plan.snapshot), r.plan.settings.context);
    return out;
}

std::string placement_text(const PlanReport& r) {
    std::string out = cat("memory placement (", r.device, ")\n");
    const Settings& settings = r.plan.settings;
    for (const auto& [device, budget] :
         {std::pair("vram", settings.vram), std::pair("ram", settings.ram)}) {
        uint64_t used = 0;
        for (const BudgetLine& one : r.plan.placement) {
            if (one.device != device) continue;
            used += one.bytes;
            out += formatted("  {:<5} {:>10}  {}\n", device, size_text(one.bytes), one.what);
        }
        if (budget == 0) continue;
        out += formatted("  {:<5} {:>10}  of the budget of {}\n", device, size_text(used),
                         size_text(budget));
    }
    return out;
}

std::string drives_text(const PlanReport& r) {
    const PlanModel& m = *r.model;
    std::string out =
        m.files ? "drives with the model's files\n" : "drives for the model's files\n";
    if (m.drives.empty()) out += "  none found\n";
    for (const PlannedDrive& d : m.drives) {
        out += formatted("  {:<12} {:>10} free", d.name.empty() ? "-" : d.name, size_text(d.free));
        if (m.files) {
            out += formatted("  {} shards, {}", d.shards, size_text(d.shard_bytes));
        } else {
            out += d.free >= all_bytes(m) ? "  enough for all files" : "  enough for some files";
        }
        out += cat("  (", d.file_system, ")\n");
    }
    return out;
}

std::string kernels_line(const char* name, const KernelRates& k) {
    return formatted(
        "  {:<8} dense weights {:.3g} GB/s, {:.3g} T multiply-adds/s; experts {:.3g} GB/s, "
        "{:.3g} T multiply-adds/s; head {:.3g} GB/s [{}]\n",
        name, k.dense_bytes_s / 1e9, k.dense_macs_s / 1e12, k.expert_bytes_s / 1e9,
        k.expert_macs_s / 1e12, k.head_bytes_s / 1e9, origin_name(k.origin));
}

std::string rates_text(const MachineRates& rates) {
    std::string out = "speed of each part\n";
    out += formatted(
        "  {:<8} decode, layer by layer {:.2f} GB/s; prompt, always busy {:.2f} GB/s "
        "[{}]\n",
        "drive", rates.drive.layer_bytes_s / 1e9, rates.drive.stream_bytes_s / 1e9,
        origin_name(rates.drive.origin));
    if (rates.link) {
        out += formatted("  {:<8} RAM to GPU {:.2f} GB/s [{}]\n", "link", rates.link->bytes_s / 1e9,
                         origin_name(rates.link->origin));
    }
    out += formatted("  {:<8} copy {:.2f} GB/s [measured]\n", "RAM", rates.copy_bytes_s / 1e9);
    out += kernels_line("CPU", rates.cpu);
    if (rates.gpu) out += kernels_line("GPU", *rates.gpu);
    return out;
}

// Two decimals below ten, one below a hundred.
std::string speed_text(double tok_s) {
    return formatted("{:.{}f}", tok_s, tok_s < 10 ? 2 : tok_s < 100 ? 1 : 0);
}

// `unit`: how many of the table's unit of time a second has.
std::string forecast_row(const std::string& head, const Forecast& f, double unit) {
    const Terms& t = f.terms;
    return formatted("  {:<26} {:>9} {:>11} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}\n", head,
                     speed_text(f.limit_tok_s()), speed_text(f.serial_tok_s()), t.bottleneck(),
                     t.drive * unit, t.link * unit, t.cpu * unit, t.gpu * unit);
}

std::string forecast_head(const char* what) {
    return formatted("{:<28} {:>9} {:>11} {:>10} {:>9} {:>9} {:>9} {:>9}\n", what, "tok/s",
                     "no overlap", "bottleneck", "drive", "link", "cpu", "gpu");
}

std::string decode_text(const PlanReport& r) {
    std::string out = forecast_head("decode, ms per token");
    for (const Forecast& f : r.decode) {
        std::string head = warmth_name(f.warmth);
        if (f.ram_hits + f.vram_hits > 0) {
            const double hits = 1 - (1 - f.ram_hits) * (1 - f.vram_hits);
            head += formatted(", {:.0f} % hits", 100 * hits);
        }
        out += forecast_row(head, f, 1e3);
    }
    return out;
}

std::string prompts_text(const PlanReport& r) {
    std::string out = forecast_head("prompt, s in total");
    for (const Forecast& f : r.prompts) {
        out += forecast_row(formatted("{:>5} tokens, {}", f.tokens, warmth_name(f.warmth)), f, 1);
    }
    return out;
}

void write_kernels(JsonWriter& json, const KernelRates& k) {
    json.begin_object()
        .member("dense_bytes_s", k.dense_bytes_s)
        .member("dense_macs_s", k.dense_macs_s)
        .member("head_bytes_s", k.head_bytes_s)
        .member("expert_bytes_s", k.expert_bytes_s)
        .member("expert_macs_s", k.expert_macs_s)
        .member("op_s", k.op_s)
        .member("trip_s", k.trip_s)
        .member("origin", origin_name(k.origin))
        .end_object();
}

void write_rates(JsonWriter& json, const MachineRates& rates) {
    json.begin_object().key("drive").begin_object();
    json.member("layer_bytes_s", rates.drive.layer_bytes_s)
        .member("stream_bytes_s", rates.drive.stream_bytes_s)
        .member("origin", origin_name(rates.drive.origin))
        .end_object();
    if (rates.link) {
        json.key("link")
            .begin_object()
            .member("bytes_s", rates.link->bytes_s)
            .member("origin", origin_name(rates.link->origin))
            .end_object();
    }
    json.member("copy_bytes_s", rates.copy_bytes_s).key("cpu");
    write_kernels(json, rates.cpu);
    if (rates.gpu) json.key("gpu"), write_kernels(json, *rates.gpu);
    json.end_object();
}

void write_forecasts(JsonWriter& json, const std::vector<Forecast>& forecasts) {
    json.begin_array();
    for (const Forecast& f : forecasts) {
        json.begin_object()
            .member("cache", warmth_name(f.warmth))
            .member("tokens", f.tokens)
            .member("ram_hits", f.ram_hits)
            .member("vram_hits", f.vram_hits)
            .member("tok_s", f.limit_tok_s())
            .member("apart_tok_s", f.serial_tok_s())
            .member("binds", f.terms.bottleneck())
            .member("drive_s", f.terms.drive)
            .member("link_s", f.terms.link)
            .member("cpu_s", f.terms.cpu)
            .member("gpu_s", f.terms.gpu)
            .end_object();
    }
    json.end_array();
}

void write_places(JsonWriter& json, const PlanReport& r) {
    json.key("classes").begin_array();
    for (const TensorClass& c : r.model->classes) {
        json.begin_object()
            .member("class", c.name)
            .member("where", home_text(r, c))
            .member("tensors", c.tensors)
            .member("bytes", c.bytes)
            .end_object();
    }
    json.end_array().key("placement").begin_array();
    for (const BudgetLine& one : r.plan.placement) {
        json.begin_object()
            .member("device", one.device)
            .member("what", one.what)
            .member("bytes", one.bytes)
            .end_object();
    }
    json.end_array().key("drives").begin_array();
    for (const PlannedDrive& d : r.model->drives) {
        json.begin_object()
            .member("drive", d.name)
            .member("file_system", d.file_system)
            .member("free", d.free)
            .member("shards", d.shards)
            .member("shard_bytes", d.shard_bytes)
            .end_object();
    }
    json.end_array();
}

}  // namespace

std::string plan_text(const PlanReport& r) {
    std::string out =
        cat(r.model->name, r.model->files ? "" : " (a known shape, no files)", "\n\n");
    out += classes_text(r) + "\n" + placement_text(r) + "\n" + drives_text(r) + "\n";
    out += rates_text(r.rates) + "\n" + decode_text(r) + "\n" + prompts_text(r) + "\n";
    out +=
        "tok/s: all parts work at the same time, so that the slowest, the bottleneck, sets the "
        "speed.\n"
        "no overlap: tok/s if the parts took turns; a real run lies between the two.\n"
        "cold: empty expert caches; warm: full ones. even: all experts are used equally often;\n"
        "skewed: some more often, with hit rates as in published runs of such models.\n";
    for (const std::string& note : r.notes) out += cat("note: ", note, "\n");
    return out;
}

std::string plan_json(const PlanReport& r) {
    const PlanModel& m = *r.model;
    JsonWriter json;
    json.begin_object().member("model", m.name).member("files", m.files);
    json.member("device", r.device)
        .member("ram", r.plan.settings.ram)
        .member("vram", r.plan.settings.vram);
    json.member("context", r.plan.settings.context).member("chunk", r.plan.settings.chunk);
    json.member("bytes", all_bytes(m)).member("expert_bytes", m.expert_bytes);
    json.member("experts", m.experts()).member("token_experts", m.token_experts());
    json.member("state_bytes", r.plan.state).member("state_bytes_token", state_bytes_token(r));
    json.member("snapshot_bytes", r.plan.snapshot);
    write_places(json, r);
    json.key("rates");
    write_rates(json, r.rates);
    json.key("decode");
    write_forecasts(json, r.decode);
    json.key("prompt");
    write_forecasts(json, r.prompts);
    json.key("notes").begin_array();
    for (const std::string& note : r.notes) json.value(note);
    return json.end_array().end_object().text() + "\n";
}

}  // namespace sluice
