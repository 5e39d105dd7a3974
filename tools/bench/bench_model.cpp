#include "tools/bench/bench_model.h"

#include <sys/resource.h>

#include <algorithm>

#include "tools/answer/generate.h"
#include "tools/bench/bench_prompts.h"
#include "tools/bench/timing.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

uint64_t peak_memory() {
    rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

struct Run {
    double prompt_s = 0, decode_s = 0;
    RunStats decode;
};

int32_t best_of(std::span<const float> logits) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Result<Run> run_once(Session& session, std::span<const int32_t> prompt, int32_t count) {
    Run run;
    session.reset();
    auto start = Clock::now();
    auto logits = session.feed(prompt);
    if (!logits) return tl::unexpected(logits.error());
    run.prompt_s = seconds_since(start);
    RunStats before = session.stats();
    start = Clock::now();
    for (int32_t i = 0; i < count; ++i) {
        int32_t token = best_of(*logits);
        logits = session.feed(std::span<const int32_t>(&token, 1));
        if (!logits) return tl::unexpected(logits.error());
    }
    run.decode_s = seconds_since(start);
    run.decode = session.stats() - before;
    return run;
}

}  // namespace

Result<ModelReport> bench_model(const EngineOptions& options, const ModelBench& bench) {
    auto start = Clock::now();
    auto engine = Engine::load(options, {}, cancel_flag());
    if (!engine) return tl::unexpected(engine.error());
    auto session = (*engine)->session();
    if (!session) return tl::unexpected(session.error());
    (*session)->set_cancel(cancel_flag());
    ModelReport report;
    report.load_s = seconds_since(start);
    const Settings& settings = (*engine)->settings();
    report.device = (*engine)->device_name();
    report.io_name = (*engine)->io_name();
    report.load = (*engine)->load_facts();
    report.cache_slots = settings.cache_slots;
    report.ram_budget = settings.ram;
    report.decode_tokens = std::min(bench.decode_tokens, settings.context / 2);
    report.prompt_tokens = std::min(bench.prompt_tokens, settings.context - report.decode_tokens);
    auto prompt = random_prompt(**engine, report.prompt_tokens);

    std::vector<Run> runs;
    uint64_t asked = 0, hits = 0, bytes = 0;
    for (int i = 0; i < bench.runs; ++i) {
        auto run = run_once(**session, prompt, report.decode_tokens);
        if (!run) return tl::unexpected(run.error());
        asked += run->decode.cache.asked, hits += run->decode.cache.hits;
        bytes += run->decode.expert_bytes + run->decode.row_bytes;
        runs.push_back(*run);
    }
    auto middle = [&](auto slower) {
        std::sort(runs.begin(), runs.end(), slower);
        return runs[runs.size() / 2];
    };
    Run prompted = middle([](const Run& a, const Run& b) { return a.prompt_s < b.prompt_s; });
    Run decoded = middle([](const Run& a, const Run& b) { return a.decode_s < b.decode_s; });
    double tokens = report.decode_tokens;
    report.prompt_tok_s = rate(report.prompt_tokens, prompted.prompt_s);
    report.decode_tok_s = rate(tokens, decoded.decode_s);
    report.bytes_token = static_cast<double>(bytes) / (tokens * bench.runs);
    report.hit_rate = rate(static_cast<double>(hits), static_cast<double>(asked));
    report.cpu = decoded.decode.cpu;
    report.limit =
        limit_of(decoded.decode, static_cast<uint64_t>(report.decode_tokens), decoded.decode_s);
    report.peak_rss = peak_memory();
    return report;
}

}  // namespace sluice
