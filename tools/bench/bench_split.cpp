#include "tools/bench/bench_split.h"

#include <algorithm>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr int32_t prompt_tokens = 32;  // enough to bring experts into RAM

// The speed of the split divided by the better of the other two.
double gain(const std::vector<SplitRow>& rows) {
    const double pure = std::max(rows[0].model.decode_tok_s, rows[1].model.decode_tok_s);
    return rate(rows[2].model.decode_tok_s, pure);
}

}  // namespace

Result<void> check_split(const EngineOptions& options) {
    bool cpu = options.device == "cpu";
    if (options.device == "auto" && !options.open_device) {
        auto devices = cuda_devices();
        if (!devices) return tl::unexpected(devices.error());
        cpu = devices->empty();
    }
    if (cpu) return fail(Code::usage, "--only: split needs a GPU (--device cuda)");
    return {};
}

Result<std::vector<SplitRow>> bench_split(const EngineOptions& options, const ModelBench& bench) {
    std::vector<SplitRow> rows = {{"device", {}}, {"cpu", {}}, {"split", {}}};
    const std::optional<uint32_t> shares[] = {0u, 100u, std::nullopt};
    ModelBench decode = bench;
    decode.prompt_tokens = std::min(decode.prompt_tokens, prompt_tokens);
    for (size_t i = 0; i < rows.size(); ++i) {
        EngineOptions one = options;
        one.cpu_experts = shares[i];
        auto model = bench_model(one, decode);
        if (!model) return tl::unexpected(model.error());
        rows[i].model = std::move(*model);
    }
    return rows;
}

std::string split_text(const std::vector<SplitRow>& rows) {
    std::string out = cat("experts not in VRAM, computed by (", rows[0].model.device, ")\n",
                          "            tok/s   RAM hits\n");
    for (const SplitRow& row : rows) {
        out += formatted("  {:<7} {:8.2f} {:8.1f} %  ", row.name, row.model.decode_tok_s,
                         100 * row.model.hit_rate);
        if (row.model.cpu.asked > 0) out += cpu_experts_text(row.model.cpu);
        out += "\n";
    }
    out += formatted("  the split reaches {:.2f} times the better of the other two\n", gain(rows));
    return out;
}

void write_split(JsonWriter& json, const std::vector<SplitRow>& rows) {
    json.begin_object();
    for (const SplitRow& row : rows) {
        json.key(row.name).begin_object();
        json.member("decode_tok_s", row.model.decode_tok_s).member("hit_rate", row.model.hit_rate);
        json.key("cpu_experts");
        write_cpu_experts(json, row.model.cpu);
        json.end_object();
    }
    json.member("gain", gain(rows)).end_object();
}

}  // namespace sluice
