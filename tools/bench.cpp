#include "tools/bench.h"

#include <algorithm>

#include "io/format.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/answer/model_run.h"
#include "tools/bench/bench_drive.h"
#include "tools/bench/bench_kernels.h"
#include "tools/bench/bench_ladder.h"
#include "tools/bench/bench_model.h"
#include "tools/bench/bench_prompts.h"
#include "tools/bench/bench_split.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr double drive_seconds = 0.5;

struct Results {
    std::optional<ModelReport> model, uncached;
    std::vector<KernelRate> kernels;
    std::optional<DriveReport> drive;
    std::vector<SplitRow> split;
    std::vector<PromptRow> prompts;
    std::vector<LadderRow> ladder;
};

bool wanted(const Options& options, std::string_view part) {
    const auto& only = options.only;
    return only.empty() || std::find(only.begin(), only.end(), part) != only.end();
}

// Decode speed without a cache as a share of what the best plain reads would allow.
double uncached_share(const Results& results) {
    if (!results.uncached || !results.drive || results.uncached->bytes_token <= 0) return 0;
    double limit = results.drive->best.bytes_s / results.uncached->bytes_token;
    return results.uncached->decode_tok_s / limit;
}

std::string model_text(const char* what, const ModelReport& m) {
    std::string out = cat(what, " (", m.device, "; ", m.io_name, "; ", m.cache_slots, " slots)\n");
    const double load = rate(static_cast<double>(m.load.bytes), m.load.seconds);
    out += formatted("  load    {:8.2f} s      ({:.2f} GB of dense weights at {:.3f} GB/s",
                     m.load_s, static_cast<double>(m.load.bytes) / 1e9, load / 1e9);
    if (m.load.drive_bytes_s > 0) {
        out += formatted(", {:.1f} % of the drive's {:.3f}", 100 * load_share(m.load),
                         m.load.drive_bytes_s / 1e9);
    }
    out += ")\n";
    out += formatted("  prefill {:8.2f} tok/s  ({} tokens)\n", m.prompt_tok_s, m.prompt_tokens);
    out += formatted(
        "  decode  {:8.2f} tok/s  ({} tokens, {:.1f} % cache hits, {:.2f} MB read per token)\n",
        m.decode_tok_s, m.decode_tokens, 100 * m.hit_rate, m.bytes_token / 1e6);
    out += formatted(
        "  limit   {:8.2f} tok/s  ({:.1f} % reached; ms per token: drive {:.2f}, link {:.2f}, cpu "
        "{:.2f}, gpu {:.2f})\n",
        m.limit.tok_s, 100 * m.limit.share, 1e3 * m.limit.drive_s, 1e3 * m.limit.link_s,
        1e3 * m.limit.cpu_s, 1e3 * m.limit.gpu_s);
    out += cat("  memory  ", size_text(m.peak_rss), " at peak, budget ", size_text(m.ram_budget),
               "\n");
    return out;
}

// The plain reads as a grid: a row per block size, a column per number of reads in flight.
std::string raw_text(const std::vector<DriveCell>& cells) {
    std::string out =
        ", plain io_uring, GB/s by block size (rows) and reads in flight (columns)\n         ";
    for (uint32_t depth = 1; depth <= 64; depth *= 2) out += formatted("{:8}", depth);
    uint32_t block = 0;
    for (const auto& cell : cells) {
        if (cell.block != block) out += formatted("\n{:6} KiB", cell.block >> 10);
        block = cell.block;
        out += formatted("{:8.3f}", cell.bytes_s / 1e9);
    }
    return out;
}

std::string drive_text(const DriveReport& d) {
    const double best = d.best.bytes_s;
    std::string out = cat("drive (", d.io_name, ")");
    if (d.raw.empty()) {
        out += formatted("\n  paced to             {:8.3f} GB/s  in total\n", best / 1e9);
    } else {
        out += raw_text(d.raw);
        out += formatted("\n  best plain reads     {:8.3f} GB/s  ({} KiB, {} in flight; median)\n",
                         best / 1e9, d.best.block >> 10, d.best.depth);
    }
    out += formatted("  experts, streamed    {:8.3f} GB/s  {:5.1f} %\n", d.stream_bytes_s / 1e9,
                     100 * d.stream_bytes_s / best);
    out += formatted("  experts, by layer    {:8.3f} GB/s  {:5.1f} %\n", d.layer_bytes_s / 1e9,
                     100 * d.layer_bytes_s / best);
    return out;
}

std::string results_text(const Results& results) {
    std::string out;
    if (results.model) out += model_text("model", *results.model);
    if (results.uncached) out += model_text("model, cache off", *results.uncached);
    if (!results.kernels.empty()) out += kernels_text(results.kernels);
    if (results.drive) out += drive_text(*results.drive);
    if (!results.split.empty()) out += split_text(results.split);
    if (!results.prompts.empty()) out += prompts_text(results.prompts);
    if (!results.ladder.empty()) out += ladder_text(results.ladder);
    if (double share = uncached_share(results); share > 0) {
        out += formatted(
            "decode with the cache off reaches {:.1f} % of what the best plain reads allow\n",
            100 * share);
    }
    return out;
}

void write_model(JsonWriter& json, const ModelReport& m) {
    json.begin_object()
        .member("device", m.device)
        .member("io", m.io_name)
        .member("cache_slots", m.cache_slots)
        .member("load_s", m.load_s)
        .member("load_bytes", m.load.bytes)
        .member("load_read_s", m.load.seconds)
        .member("load_share", load_share(m.load))
        .member("prompt_tokens", m.prompt_tokens)
        .member("prompt_tok_s", m.prompt_tok_s)
        .member("decode_tokens", m.decode_tokens)
        .member("decode_tok_s", m.decode_tok_s)
        .member("bytes_token", m.bytes_token)
        .member("hit_rate", m.hit_rate)
        .member("peak_rss", m.peak_rss)
        .member("ram_budget", m.ram_budget)
        .key("limit");
    write_limit(json, m.limit);
    json.end_object();
}

void write_kernels(JsonWriter& json, const std::vector<KernelRate>& rates) {
    json.begin_array();
    for (const KernelRate& r : rates) {
        json.begin_object()
            .member("isa", isa_name(r.isa))
            .member("threads", r.threads)
            .member("fp4_bytes_s", r.fp4_bytes_s)
            .member("token_bytes_s", r.token_bytes_s)
            .member("copy_bytes_s", r.copy_bytes_s)
            .member("share", r.share())
            .member("batch_macs_s", r.batch_macs_s)
            .end_object();
    }
    json.end_array();
}

void write_drive(JsonWriter& json, const DriveReport& d) {
    json.begin_object().member("io", d.io_name).member("drives", d.drives).key("raw").begin_array();
    for (const auto& cell : d.raw) {
        json.begin_object()
            .member("block", cell.block)
            .member("depth", cell.depth)
            .member("bytes_s", cell.bytes_s)
            .end_object();
    }
    json.end_array()
        .member("best_block", d.best.block)
        .member("best_depth", d.best.depth)
        .member("best_bytes_s", d.best.bytes_s)
        .member("stream_bytes_s", d.stream_bytes_s)
        .member("layer_bytes_s", d.layer_bytes_s)
        .end_object();
}

std::string results_json(const Results& results) {
    JsonWriter json;
    json.begin_object();
    if (results.model) json.key("model"), write_model(json, *results.model);
    if (results.uncached) json.key("cache_off"), write_model(json, *results.uncached);
    if (!results.kernels.empty()) json.key("kernels"), write_kernels(json, results.kernels);
    if (results.drive) json.key("drive"), write_drive(json, *results.drive);
    if (!results.split.empty()) json.key("split"), write_split(json, results.split);
    if (!results.prompts.empty()) json.key("prompts"), write_prompts(json, results.prompts);
    if (!results.ladder.empty()) json.key("ladder"), write_ladder(json, results.ladder);
    json.member("cache_off_share", uncached_share(results)).end_object();
    return json.text() + "\n";
}

Result<Results> measure(const Options& options) {
    Results results;
    if (options.only != std::vector<std::string>{"gemv"}) {  // gemv reads nothing
        if (auto r = check_bench_pace(options.engine); !r) return tl::unexpected(r.error());
    }
    const bool split = !options.only.empty() && wanted(options, "split");
    if (split) {
        if (auto r = check_split(options.engine); !r) return tl::unexpected(r.error());
    }
    const uint64_t free = default_ram_budget();
    const uint64_t room = options.engine.ram > 0 ? std::min(options.engine.ram, free) : free;
    std::optional<KernelBench> kernels;
    if (wanted(options, "gemv")) {
        auto fits = fit({}, room);
        if (!fits) return tl::unexpected(fits.error());
        kernels = std::move(*fits);
    }
    ModelBench bench;
    if (options.predict > 0) bench.decode_tokens = static_cast<int32_t>(options.predict);
    if (wanted(options, "decode") || wanted(options, "prefill")) {
        auto model = bench_model(options.engine, bench);
        if (!model) return tl::unexpected(model.error());
        results.model = std::move(*model);
    }
    if (wanted(options, "decode") && options.engine.cache_slots != 0u) {
        EngineOptions off = options.engine;
        off.cache_slots = 0;
        off.prefetch = 0;
        auto uncached = bench_model(off, bench);
        if (!uncached) return tl::unexpected(uncached.error());
        results.uncached = std::move(*uncached);
    }
    if (kernels) {
        if (options.engine.isa != CpuIsa::automatic) kernels->isas = {options.engine.isa};
        if (options.engine.threads > 0) kernels->threads = {options.engine.threads};
        auto rates = bench_kernels(*kernels);
        if (!rates) return tl::unexpected(rates.error());
        results.kernels = std::move(*rates);
    }
    if (wanted(options, "drive")) {
        auto drive = bench_drive(options.engine, room, drive_seconds);
        if (!drive) return tl::unexpected(drive.error());
        results.drive = std::move(*drive);
    }
    // Loads the model three times, so it runs only when it is named.
    if (split) {
        auto rows = bench_split(options.engine, bench);
        if (!rows) return tl::unexpected(rows.error());
        results.split = std::move(*rows);
    }
    if (!options.only.empty() && wanted(options, "prompts")) {
        auto prompts = bench_prompts(options.engine);
        if (!prompts) return tl::unexpected(prompts.error());
        results.prompts = std::move(*prompts);
    }
    if (!options.only.empty() && wanted(options, "ladder")) {
        auto ladder = bench_ladder(options.engine, bench);
        if (!ladder) return tl::unexpected(ladder.error());
        results.ladder = std::move(*ladder);
    }
    return results;
}

}  // namespace

int run_bench(const Options& options, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    StatusLine status(terminal.stderr_tty && !options.quiet);
    status.show("measuring");
    Options wanted = options;
    wanted.engine.measuring = measuring_notice(options, terminal, status);
    auto results = measure(wanted);
    status.erase();
    if (!results) return report_error(results.error());
    auto text = options.json ? results_json(*results) : results_text(*results);
    Output output(1);
    if (auto done = output.write(text); !done) return report_error(done.error());
    return output.reader_gone() ? exit_reader_gone : exit_ok;
}

}  // namespace sluice
