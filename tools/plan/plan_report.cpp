#include "tools/plan/plan_report.h"

#include <algorithm>
#include <cstdio>

#include "engine/forward/state.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"

namespace sluice {

namespace {

std::string line(const char* format, auto... values) {
    char text[320];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

const char* home_text(const PlanReport& report, Home home) {
    switch (home) {
        case Home::dense:
            return report.plan.settings.vram > 0 ? "VRAM" : "RAM";
        case Home::embedding:
            return "RAM";
        case Home::table:
            return "drive, cached";
        case Home::unused:
            return "not used";
    }
    return "";
}

// What the sequence adds in memory for one more token, at the planned context.
double state_bytes_token(const PlanReport& report) {
    const ModelConfig& c = report.model->config();
    const int32_t context = report.plan.settings.context, less = std::max(1, context / 2);
    if (context <= less) return static_cast<double>(report.plan.state);
    return static_cast<double>(State::bytes(c, context) - State::bytes(c, less)) / (context - less);
}

uint64_t all_bytes(const PlanModel& model) {
    uint64_t sum = 0;
    for (const PlannedClass& c : model.classes) sum += c.bytes;
    return sum;
}

std::string classes_text(const PlanReport& r) {
    const PlanModel& m = *r.model;
    std::string out =
        line("%-24s %9s %12s %17s  %s\n", "class", "tensors", "size", "bytes", "where");
    for (const PlannedClass& c : m.classes) {
        out += line("%-24s %9llu %12s %17llu  %s\n", c.what.c_str(),
                    static_cast<unsigned long long>(c.tensors), size_text(c.bytes).c_str(),
                    static_cast<unsigned long long>(c.bytes), home_text(r, c.home));
    }
    const uint64_t all = all_bytes(m);
    out += line("%-24s %9s %12s %17llu\n", "total", "", size_text(all).c_str(),
                static_cast<unsigned long long>(all));
    out += line("one expert %s, %llu in all; a token uses %llu: %s\n",
                size_text(m.expert_bytes).c_str(), static_cast<unsigned long long>(m.experts()),
                static_cast<unsigned long long>(m.token_experts()),
                size_text(m.token_experts() * m.expert_bytes).c_str());
    out += line("state %s for -c %d, %.0f bytes a token\n", size_text(r.plan.state).c_str(),
                r.plan.settings.context, state_bytes_token(r));
    return out;
}

std::string placement_text(const PlanReport& r) {
    std::string out = cat("placement (", r.device, ")\n");
    for (const char* device : {"vram", "ram"}) {
        uint64_t used = 0;
        for (const BudgetLine& one : r.plan.placement) {
            if (one.device != device) continue;
            used += one.bytes;
            out +=
                line("  %-5s %10s  %s\n", device, size_text(one.bytes).c_str(), one.what.c_str());
        }
        const uint64_t budget =
            device == std::string("ram") ? r.plan.settings.ram : r.plan.settings.vram;
        if (budget == 0) continue;
        out += line("  %-5s %10s  of %s\n", device, size_text(used).c_str(),
                    size_text(budget).c_str());
    }
    return out;
}

std::string drives_text(const PlanReport& r) {
    const PlanModel& m = *r.model;
    std::string out = m.files ? "drives\n" : "drives here, for the files\n";
    if (m.drives.empty()) out += "  none found\n";
    for (const PlannedDrive& d : m.drives) {
        out += line("  %-12s %10s free", d.name.empty() ? "-" : d.name.c_str(),
                    size_text(d.free).c_str());
        if (m.files) {
            out += line("  %llu shards, %s", static_cast<unsigned long long>(d.shards),
                        size_text(d.shard_bytes).c_str());
        } else {
            out += d.free >= all_bytes(m) ? "  holds it all " : "  holds a part ";
        }
        out += cat("  (", d.file_system, ")\n");
    }
    return out;
}

std::string kernels_line(const char* name, const KernelRates& k) {
    return line(
        "  %-8s dense %.3g GB/s and %.3g T multiply-adds/s, experts %.3g GB/s and %.3g T, "
        "head %.3g GB/s (%s)\n",
        name, k.dense_bytes_s / 1e9, k.dense_macs_s / 1e12, k.expert_bytes_s / 1e9,
        k.expert_macs_s / 1e12, k.head_bytes_s / 1e9, origin_name(k.origin));
}

std::string rates_text(const MachineRates& rates) {
    std::string out = "rates\n";
    out += line("  %-8s %.2f GB/s a layer at a time, %.2f GB/s kept busy (%s)\n", "drive",
                rates.drive.layer_bytes_s / 1e9, rates.drive.stream_bytes_s / 1e9,
                origin_name(rates.drive.origin));
    if (rates.link) {
        out += line("  %-8s %.2f GB/s host to card (%s)\n", "link", rates.link->bytes_s / 1e9,
                    origin_name(rates.link->origin));
    }
    out += line("  %-8s %.2f GB/s copied (measured)\n", "memory", rates.copy_bytes_s / 1e9);
    out += kernels_line("CPU", rates.cpu);
    if (rates.gpu) out += kernels_line("GPU", *rates.gpu);
    return out;
}

// Two significant decimals below ten, one below a hundred.
std::string speed(double tok_s) {
    return line(tok_s < 10 ? "%.2f" : tok_s < 100 ? "%.1f" : "%.0f", tok_s);
}

std::string forecast_row(const std::string& head, const Forecast& f, double unit) {
    const Terms& t = f.terms;
    return line("  %-26s %9s %9s  %-6s %9.2f %9.2f %9.2f %9.2f\n", head.c_str(),
                speed(f.limit_tok_s()).c_str(), speed(f.apart_tok_s()).c_str(), t.binds(),
                t.drive * unit, t.link * unit, t.cpu * unit, t.gpu * unit);
}

std::string forecast_head(const char* what, const char* unit) {
    return line("%-28s %9s %9s  %-6s %9s %9s %9s %9s\n", what, "tok/s", "if apart", "binds",
                cat("drive ", unit).c_str(), "link", "cpu", "gpu");
}

std::string decode_text(const PlanReport& r) {
    std::string out = forecast_head("decode", "ms");
    for (const Forecast& f : r.decode) {
        std::string head = warmth_name(f.warmth);
        if (f.ram_hits + f.vram_hits > 0) {
            const double hits = 1 - (1 - f.ram_hits) * (1 - f.vram_hits);
            head += line(", %.0f %% hits", 100 * hits);
        }
        out += forecast_row(head, f, 1e3);
    }
    return out;
}

std::string prompts_text(const PlanReport& r) {
    std::string out = forecast_head("prompt", "s");
    for (const Forecast& f : r.prompts) {
        out += forecast_row(line("%5d tokens, %s", f.tokens, warmth_name(f.warmth)), f, 1);
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
            .member("apart_tok_s", f.apart_tok_s())
            .member("binds", f.terms.binds())
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
    for (const PlannedClass& c : r.model->classes) {
        json.begin_object()
            .member("class", c.what)
            .member("where", home_text(r, c.home))
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
    std::string out = cat(r.model->name, r.model->files ? "" : " (a shape, no files)", "\n\n");
    out += classes_text(r) + "\n" + placement_text(r) + "\n" + drives_text(r) + "\n";
    out += rates_text(r.rates) + "\n" + decode_text(r) + "\n" + prompts_text(r) + "\n";
    out +=
        "tok/s: every part at work at once, t = max(drive, link, cpu, gpu); if apart: their sum.\n"
        "warm: the cache is full; even: all experts alike; skewed: hits as published runs show.\n";
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
