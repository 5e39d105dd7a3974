#include "tools/bench/bench_ladder.h"

#include "io/clock.h"
#include "io/format.h"
#include "tools/bench/bench_prompts.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr int32_t prompt_tokens = 16;

struct Step {
    const char* name;
    Overlap overlap;
    bool guesses;
};
constexpr Step steps[] = {{"naive: read, then compute", Overlap::none, false},
                          {"overlap", Overlap::prompt_path, false},
                          {"one-token path", Overlap::full, false},
                          {"prefetch", Overlap::full, true}};

Result<RunStats> decode(const EngineOptions& options, int32_t tokens, double& seconds,
                        uint64_t& expert_bytes) {
    auto engine = Engine::load(options, {}, cancel_flag());
    if (!engine) return tl::unexpected(engine.error());
    auto session = (*engine)->session();
    if (!session) return tl::unexpected(session.error());
    (*session)->set_cancel(cancel_flag());
    expert_bytes = (*engine)->expert_bytes();
    auto best = (*session)->feed_best(random_prompt(**engine, prompt_tokens));
    if (!best) return tl::unexpected(best.error());
    const RunStats before = (*session)->stats();
    const auto start = Clock::now();
    for (int32_t i = 0; i < tokens; ++i) {
        const int32_t token = *best;
        best = (*session)->feed_best(std::span<const int32_t>(&token, 1));
        if (!best) return tl::unexpected(best.error());
    }
    seconds = seconds_since(start);
    return (*session)->stats() - before;
}

}  // namespace

Result<std::vector<LadderRow>> bench_ladder(const EngineOptions& options, const ModelBench& bench) {
    std::vector<LadderRow> rows;
    double drive = 0;  // bytes per second, of the first step: there nothing hides when reads end
    for (const Step& step : steps) {
        EngineOptions wanted = options;
        wanted.cache_slots = options.cache_slots.value_or(0);
        wanted.overlap = step.overlap;
        if (!step.guesses) wanted.prefetch = 0;
        double seconds = 0;
        uint64_t expert_bytes = 0;
        auto run = decode(wanted, bench.decode_tokens, seconds, expert_bytes);
        if (!run) return tl::unexpected(run.error());
        const CacheStats& c = run->cache;
        const uint64_t needed =
            c.misses + c.prefetch_used - c.late_prefetches + c.prompt_asked - c.prompt_hits;
        if (drive == 0) drive = rate(static_cast<double>(run->ring.bytes), run->ring.busy_s);
        LadderRow row;
        row.name = step.name;
        row.tok_s = rate(bench.decode_tokens, seconds);
        row.bytes_token = static_cast<double>(run->expert_bytes) / bench.decode_tokens;
        row.needed_token = static_cast<double>(needed * expert_bytes) / bench.decode_tokens;
        row.limit_tok_s = rate(drive, row.needed_token);
        row.guesses_used = c.prefetch_used;
        row.guesses_wasted = c.prefetch_wasted;
        rows.push_back(row);
    }
    return rows;
}

std::string ladder_text(const std::vector<LadderRow>& rows) {
    std::string out = "ladder                        tok/s   MB/token  drive allows  reached\n";
    for (const LadderRow& r : rows) {
        out += formatted("  {:<26} {:8.3f} {:10.2f} {:13.3f}  {:5.1f} %", r.name, r.tok_s,
                         r.bytes_token / 1e6, r.limit_tok_s, 100 * rate(r.tok_s, r.limit_tok_s));
        if (r.guesses_used + r.guesses_wasted > 0) {
            out += formatted("  prefetch: {} used, {} wasted", r.guesses_used, r.guesses_wasted);
        }
        out += '\n';
    }
    return out;
}

void write_ladder(JsonWriter& json, const std::vector<LadderRow>& rows) {
    json.begin_array();
    for (const LadderRow& r : rows) {
        json.begin_object()
            .member("step", r.name)
            .member("tok_s", r.tok_s)
            .member("limit_tok_s", r.limit_tok_s)
            .member("bytes_token", r.bytes_token)
            .member("needed_bytes_token", r.needed_token)
            .member("guesses_used", r.guesses_used)
            .member("guesses_wasted", r.guesses_wasted)
            .end_object();
    }
    json.end_array();
}

}  // namespace sluice
