#include "engine/session.h"

#include <algorithm>
#include <cmath>

#include "engine/engine_impl.h"
#include "engine/forward/chunked_prompt.h"
#include "engine/forward/forward.h"
#include "engine/warm_start.h"
#include "io/clock.h"
#include "io/log.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

// The counters of the runtime's parts since the model was loaded.
RunStats totals(const Runtime& rt) {
    RunStats t;
    t.cache = rt.tiers.cache->stats();
    if (rt.tiers.governor) t.cache.prefetch_switched_off = rt.tiers.governor->switched_off();
    t.ring = rt.ring->stats();
    t.drives = rt.ring->drive_stats();
    for (uint32_t drive = 0; drive < t.drives.size(); ++drive) {
        t.drives[drive].expert_bytes = rt.tiers.cache->bytes_from(drive);
    }
    t.expert_bytes = t.cache.bytes_demand + t.cache.bytes_prefetch;
    if (rt.tiers.device) t.vram = rt.tiers.device->stats();
    if (rt.tiers.cpu) t.cpu = rt.tiers.cpu->stats();
    t.device = rt.backend->counters();
    t.host_s = rt.host_s + t.cpu.seconds;
    for (const auto& rows : rt.engram.caches) {
        t.row_bytes += rows->bytes_read();
        t.rows_asked += rows->asked();
        t.row_hits += rows->hits();
    }
    return t;
}

void refresh(Session::Impl& s) {
    RunStats now = totals(s.rt()) - s.cleared;
    now.prompt_tokens = s.stats.prompt_tokens;
    now.decode_tokens = s.stats.decode_tokens;
    now.prompt_s = s.stats.prompt_s;
    now.decode_s = s.stats.decode_s;
    s.stats = now;
    const double all = s.stats.prompt_s + s.stats.decode_s;
    s.stats.compute_s = std::max(0.0, all - s.stats.ring.wait_s);
}

Result<void> check_ids(Session::Impl& s, std::span<const int32_t> ids) {
    const ModelConfig& c = s.rt().config;
    if (ids.empty()) return fail(Code::usage, "no tokens to feed");
    const int64_t end =
        static_cast<int64_t>(s.state().position()) + static_cast<int64_t>(ids.size());
    if (end > s.state().context()) {
        return fail(Code::usage, cat("the context holds ", s.state().context(), " tokens, but ",
                                     end, " are needed; raise it with -c"));
    }
    for (int32_t id : ids) {
        if (id < 0 || id >= c.vocab) {
            return fail(Code::usage,
                        cat("token id ", id, " is outside the vocabulary of ", c.vocab));
        }
    }
    const int32_t chunk = s.rt().settings.chunk;
    if (s.rt().options.index_keys == IndexKeys::reference && s.state().position() == 0 &&
        ids.size() > static_cast<size_t>(chunk)) {
        return fail(Code::usage,
                    cat("--index-keys reference: the prompt must fit into one chunk, but it has ",
                        ids.size(), " tokens and the chunk ", chunk, "; raise --chunk"));
    }
    return {};
}

// How many of the `left` tokens the next pass takes. After the prompt the official program feeds
// one token at a time, which changes results with its index keys.
size_t pass_length(Session::Impl& s, size_t left) {
    const bool reference = s.rt().options.index_keys == IndexKeys::reference;
    if (reference && s.state().position() > 0) return 1;
    return std::min(left, static_cast<size_t>(s.rt().settings.chunk));
}

Result<void> record_routes(Pass& pass) {
    RouteRecorder* recorder = pass.runtime.recorder.get();
    if (!recorder) return {};
    const ModelConfig& c = pass.runtime.config;
    const size_t k = static_cast<size_t>(c.top_k);
    for (int32_t i = 0; i < pass.at.n; ++i) {
        for (int32_t layer = 0; layer < c.layers; ++layer) {
            const std::span<const int32_t> chosen(pass.routes.chosen[layer]);
            recorder->step({layer, chosen.subspan(i * k, k), pass.routes.guesses[layer]});
        }
        const bool end = i + 1 == pass.at.n;
        auto done = recorder->token_done(pass.order.prompt, end, end && pass.next);
        if (!done) return done;
    }
    return {};
}

void warn_changed(const std::filesystem::path& file) {
    log::warn_once("a file in use changed",
                   cat(printable(file.native()),
                       ": its owner, mode, attributes or content changed while it was in use; if "
                       "the content changed, answers are wrong: sluice inspect MODEL --check reads "
                       "every byte"));
}

PrefetchGovernor::Token token_times(const RunStats& token, double seconds,
                                    double drives_per_layer) {
    const CacheStats& cache = token.cache;
    std::vector<double> busy_s;
    for (const DriveStats& drive : token.drives) busy_s.push_back(drive.busy_s);
    return {.seconds = seconds,
            .wait_s = cache.wait_s,
            .idle_s = idle_for_guesses(seconds, busy_s, drives_per_layer),
            .read_s = token.ring.busy_s,
            .misses = cache.misses + cache.prefetch_used - cache.late_prefetches};
}

using Each = std::function<void(int32_t, std::span<const float>)>;

struct Feed {
    Session::Impl& s;
    std::span<const int32_t> ids;
    const Each& each;
    int32_t* best = nullptr;  // set: the id of the best logit is enough, see Wanted::best

    Result<void> run() {
        size_t done = 0;
        while (done < ids.size()) {
            auto fed = feed(done, group_length(ids.size() - done));
            if (!fed) return tl::unexpected(fed.error());
            done += *fed;
        }
        return {};
    }

 private:
    // The size of the next chunk group of `left` tokens: as many chunks as RAM keeps, if that
    // reads less. A probe sees one chunk from beginning to end.
    size_t group_length(size_t left) {
        Runtime& rt = s.rt();
        const auto chunk = static_cast<size_t>(rt.settings.chunk);
        const bool apart = rt.options.index_keys == IndexKeys::reference || s.probe;
        if (!rt.chunk_store || apart || left <= chunk) return 1;
        const auto chunks = [&](size_t tokens) { return (tokens + chunk - 1) / chunk; };
        const size_t count = std::min(chunks(left), chunks(rt.chunk_store->tokens));
        return rt.tiers.cache->chunk_group_pays(static_cast<uint32_t>(count)) ? count : 1;
    }

    // `count` chunks from ids[done] on; returns how many tokens that were.
    Result<size_t> feed(size_t done, size_t count) {
        Runtime& rt = s.rt();
        const spans::Group group("pass");
        const spans::Leaf leaf("bookkeeping");
        const auto start = Clock::now();
        const RunStats before = totals(rt);
        std::vector<int32_t> tokens;  // before each chunk, where the state does not have them yet
        if (count > 1) {
            tokens = s.state().tokens();
            tokens.insert(tokens.end(), ids.begin() + done, ids.end());
        }
        std::vector<Workspace> own(count > 1 ? count : 0, *rt.workspace);
        std::vector<Pass> passes;
        passes.reserve(count);
        size_t end = done;
        for (size_t i = 0; i < count; ++i) {
            const size_t n = pass_length(s, ids.size() - end);
            const auto position = s.state().position() + static_cast<int32_t>(end - done);
            passes.push_back(pass(end, n, position, count > 1 ? own[i] : *rt.workspace));
            Pass& one = passes.back();
            one.rows.before = s.state().tokens();
            if (count > 1) one.rows.before = std::span(tokens).first(one.at.first);
            if (i > 0) {
                passes[i - 1].next = &one;
                passes[i - 1].order.group_follows = true;
            }
            if (s.progress) one.hooks.progress = progress(done, count, i);
            end += n;
        }
        if (end < ids.size()) {
            passes.back().order.next_ids = ids.subspan(end, pass_length(s, ids.size() - end));
        }
        auto fed = count > 1 ? forward_chunk_group(passes) : forward(passes[0]);
        if (!fed) return tl::unexpected(fed.error());
        for (Pass& one : passes) {
            if (auto r = finish(one, before, start); !r) return tl::unexpected(r.error());
        }
        if (auto r = deliver_checkpoints(s); !r) return tl::unexpected(r.error());
        return end - done;
    }

    Pass pass(size_t done, size_t n, int32_t position, Workspace& workspace) {
        Runtime& rt = s.rt();
        const int32_t layers = rt.config.layers;
        const bool last = done + n == ids.size();
        const TensorProbe probe(s.probe, *rt.backend);
        Pass pass{.runtime = rt,
                  .workspace = workspace,
                  .state = s.state(),
                  .at = {position, static_cast<int32_t>(n)},
                  .hooks = {*rt.tiers.cache, probe, s.cancel}};
        pass.order.prompt = ids.size() > 1 || rt.options.overlap != Overlap::full;
        pass.rows.ids = ids.subspan(done, n);
        pass.wanted.every_position = static_cast<bool>(each);
        pass.wanted.best = last ? best : nullptr;
        pass.routes.recording = rt.recorder != nullptr;
        pass.routes.chosen.resize(layers);
        pass.routes.guesses.resize(layers);
        pass.checkpoints = rt.options.index_keys == IndexKeys::own ? &s.checkpoints : nullptr;
        const int32_t end = pass.at.end() - 1;
        pass.wanted.logits = [this, last, end](int32_t at, std::span<const float> logits) {
            if (each) each(at, logits);
            if (last && at == end) s.logits.assign(logits.begin(), logits.end());
        };
        return pass;
    }

    // Progress of chunk `number` in a group of `count` chunks from ids[done] on.
    std::function<void(double)> progress(size_t done, size_t count, size_t number) {
        return [this, done, count, number](double layers_done) {
            const Runtime& rt = s.rt();
            const auto chunks = [&](size_t tokens) {
                return std::ceil(static_cast<double>(tokens) / rt.settings.chunk);
            };
            const double layer = std::ceil(layers_done) - 1;
            const double turns = layer * static_cast<double>(count) + static_cast<double>(number) +
                                 (layers_done - layer);
            const double all = chunks(done) + chunks(ids.size() - done);
            s.progress((chunks(done) + turns / rt.config.layers) / all);
        };
    }

    // Adds the tokens to the state, and counts them where tokens are counted.
    Result<void> finish(Pass& pass, const RunStats& before, Clock::time_point start) {
        Runtime& rt = s.rt();
        s.state().advance(pass.rows.ids);
        rt.tiers.cache->token_passed();
        if (rt.tiers.device) rt.tiers.device->token_passed();
        if (!pass.order.prompt && rt.tiers.predictor) rt.tiers.predictor->token_passed();
        if (!pass.order.prompt && rt.tiers.governor) {
            rt.tiers.governor->token_passed(
                token_times(totals(rt) - before, seconds_since(start), rt.tiers.drives_per_layer));
        }
        return record_routes(pass);
    }
};

}  // namespace

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
    impl_->engine->session_open = false;
}

namespace {

// Feeds and measures. A failed call leaves the state as it was.
Result<void> feed_all(Session::Impl& s, std::span<const int32_t> ids, const Each& each,
                      int32_t* best) {
    if (auto r = check_ids(s, ids); !r) return r;
    const auto start = Clock::now();
    State& state = s.state();
    state.begin(static_cast<int32_t>(ids.size()));
    Result<void> done = Feed{s, ids, each, best}.run();
    if (!done) {
        state.rollback();
        s.checkpoints.drop_all();
    }
    const bool prompt = ids.size() > 1;
    (prompt ? s.stats.prompt_s : s.stats.decode_s) += seconds_since(start);
    if (!done) return done;
    (prompt ? s.stats.prompt_tokens : s.stats.decode_tokens) += ids.size();
    return {};
}

}  // namespace

Result<std::span<const float>> Session::feed(std::span<const int32_t> ids, const Each& each) {
    if (auto done = feed_all(*impl_, ids, each, nullptr); !done)
        return tl::unexpected(done.error());
    return std::span<const float>(impl_->logits);
}

Result<int32_t> Session::feed_best(std::span<const int32_t> ids) {
    int32_t best = -1;
    if (auto done = feed_all(*impl_, ids, {}, &best); !done) return tl::unexpected(done.error());
    if (best >= 0) return best;
    const std::vector<float>& logits = impl_->logits;
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

int32_t Session::position() const {
    return impl_->state().position();
}
const std::vector<int32_t>& Session::tokens() const {
    return impl_->state().tokens();
}

Result<int32_t> Session::rewind_to_prefix(std::span<const int32_t> ids) {
    if (ids.empty()) return fail(Code::usage, "no tokens to go back to");
    State& state = impl_->state();
    const std::vector<int32_t>& tokens = state.tokens();
    const auto differ = std::mismatch(ids.begin(), ids.end(), tokens.begin(), tokens.end());
    const auto common = static_cast<int32_t>(differ.first - ids.begin());
    int32_t keep = std::min(common, static_cast<int32_t>(ids.size()) - 1);
    // With the reference's index keys a cut state differs from that of any run of the reference.
    const bool whole = impl_->rt().options.index_keys == IndexKeys::reference;
    while (keep > 0 && (whole ? keep != state.position() : !state.can_cut(keep))) --keep;
    state.cut(keep);
    return keep;
}

void Session::reset() {
    impl_->state().reset();
}
void Session::set_cancel(const std::atomic<bool>* cancel) {
    impl_->cancel = cancel;
}
void Session::set_probe(Probe* probe) {
    impl_->probe = probe;
}
void Session::set_progress(std::function<void(double done)> progress) {
    impl_->progress = std::move(progress);
}
Result<bool> Session::warm_up() {
    return impl_->rt().tiers.cache->go_on_warming_up();
}
bool Session::remember_experts() const {
    const Runtime& rt = impl_->rt();
    return !rt.warm_start() || sluice::remember_experts(rt);
}
Result<void> Session::keep_routes() {
    RouteRecorder* recorder = impl_->rt().recorder.get();
    return recorder ? recorder->keep() : Result<void>();
}
Result<void> Session::files_unchanged() const {
    const Checkpoint& checkpoint = impl_->rt().checkpoint;
    const ReadRing& ring = *impl_->rt().ring;
    const auto check = [&](const File& file) -> Result<void> {  // a failed drive has been reported
        if (ring.drive_failed(file.drive())) return {};
        const auto same = file.unchanged();
        if (!same) return tl::unexpected(same.error());
        if (!*same) warn_changed(file.path());
        return {};
    };
    for (const File& shard : checkpoint.shards()) {
        if (auto same = check(shard); !same) return same;
    }
    for (const auto& copies : checkpoint.copies()) {
        for (const File& copy : copies) {
            if (auto same = check(copy); !same) return same;
        }
    }
    return {};
}

const RunStats& Session::stats() const {
    refresh(*impl_);
    return impl_->stats;
}
CachedExperts Session::cached_experts() const {
    const Runtime& rt = impl_->rt();
    const ExpertTiers& tiers = rt.tiers;
    CachedExperts out{rt.config.layers, rt.config.experts, {}};
    out.places.reserve(static_cast<size_t>(out.layers) * static_cast<size_t>(out.experts));
    for (int32_t layer = 0; layer < out.layers; ++layer) {
        for (int32_t expert = 0; expert < out.experts; ++expert) {
            const ExpertKey key{layer, expert};
            uint8_t place = tiers.cache->kept(key) ? CachedExperts::in_ram : 0;
            if (tiers.device && tiers.device->resident(key)) place |= CachedExperts::in_vram;
            out.places.push_back(place);
        }
    }
    return out;
}
void Session::clear_stats() {
    impl_->stats = {};
    impl_->cleared = totals(impl_->rt());
}

}  // namespace sluice
