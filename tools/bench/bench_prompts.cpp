#include "tools/bench/bench_prompts.h"

#include <random>

#include "io/clock.h"
#include "io/format.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr int32_t lengths[] = {512, 4096, 8192};

Result<double> feed(Session& session, std::span<const int32_t> prompt) {
    session.reset();
    session.clear_stats();
    auto start = Clock::now();
    auto best = session.feed_best(prompt);
    if (!best) return tl::unexpected(best.error());
    return seconds_since(start);
}

}  // namespace

std::vector<int32_t> random_prompt(const Engine& engine, int32_t count) {
    std::mt19937_64 random(7);
    std::vector<int32_t> ids;
    while (static_cast<int32_t>(ids.size()) < count) {
        auto id = static_cast<int32_t>(random() % static_cast<uint64_t>(engine.config().vocab));
        if (id < engine.tokenizer().size() && !engine.tokenizer().is_added(id)) ids.push_back(id);
    }
    return ids;
}

Result<std::vector<PromptRow>> bench_prompts(const EngineOptions& options) {
    auto engine = Engine::load(options, {}, cancel_flag());
    if (!engine) return tl::unexpected(engine.error());
    auto session = (*engine)->session();
    if (!session) return tl::unexpected(session.error());
    (*session)->set_cancel(cancel_flag());
    std::vector<PromptRow> rows;
    for (int32_t tokens : lengths) {
        if (tokens > (*engine)->settings().context) continue;
        const auto prompt = random_prompt(**engine, tokens);
        PromptRow row;
        row.tokens = tokens;
        auto first = feed(**session, prompt);
        if (!first) return tl::unexpected(first.error());
        auto again = feed(**session, prompt);
        if (!again) return tl::unexpected(again.error());
        const RunStats& stats = (*session)->stats();
        row.first_s = *first;
        row.again_s = *again;
        row.launches = stats.device.launches;
        row.uploaded = static_cast<double>(stats.device.upload_bytes);
        row.limit = limit_of(stats, static_cast<uint64_t>(tokens), *again);
        rows.push_back(row);
    }
    return rows;
}

std::string prompts_text(const std::vector<PromptRow>& rows) {
    std::string out = "prompts            tok/s   again tok/s   limit tok/s  reached\n";
    for (const PromptRow& r : rows) {
        out += formatted("  {:6} tokens {:9.1f} {:13.1f} {:13.1f}  {:5.1f} %  {:.2f} GB uploaded\n",
                         r.tokens, rate(r.tokens, r.first_s), rate(r.tokens, r.again_s),
                         r.limit.tok_s, 100 * r.limit.share, r.uploaded / 1e9);
    }
    return out;
}

void write_prompts(JsonWriter& json, const std::vector<PromptRow>& rows) {
    json.begin_array();
    for (const PromptRow& r : rows) {
        json.begin_object()
            .member("tokens", r.tokens)
            .member("first_tok_s", rate(r.tokens, r.first_s))
            .member("again_tok_s", rate(r.tokens, r.again_s))
            .member("launches", r.launches)
            .member("upload_bytes", r.uploaded)
            .key("limit");
        write_limit(json, r.limit);
        json.end_object();
    }
    json.end_array();
}

}  // namespace sluice
