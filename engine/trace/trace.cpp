#include "engine/trace/trace.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/checksum.h"
#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

bool better(std::span<const float> logits, int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
}

// The lower id among equals, as the sampler does.
int32_t best_id(std::span<const float> logits) {
    int32_t best = 0;
    for (int32_t id = 1; id < static_cast<int32_t>(logits.size()); ++id) {
        if (logits[id] > logits[best]) best = id;
    }
    return best;
}

class Comparison {
 public:
    Comparison(const Trace& trace, TraceReport& report) : trace_(trace), report_(report) {}

    void step(const TraceStep& step, std::span<const float> logits) {
        ++report_.steps;
        const double relative = distance(step, logits);
        distances_.push_back(relative);
        if (relative > report_.rel_max || report_.rel_max_position < 0) {
            report_.rel_max = relative;
            report_.rel_max_position = step.position;
        }
        const int32_t got = best_id(logits);
        if (got != step.ids[0]) flip(step, got, logits);
        if (trace_.exact) exact(step, logits);
    }

    void finish() {
        if (distances_.empty()) return problem("it has no steps to compare");
        auto middle = distances_.begin() + static_cast<ptrdiff_t>(distances_.size() / 2);
        std::nth_element(distances_.begin(), middle, distances_.end());
        report_.rel_median = *middle;
        if (!trace_.exact && report_.rel_median > trace_.rel_median) {
            problem(cat("the median difference of logits, ", text(report_.rel_median),
                        ", is above the tolerance of ", text(trace_.rel_median)));
        }
        if (!trace_.exact && report_.rel_max > trace_.rel_max) {
            problem(cat("the logits at position ", report_.rel_max_position, " differ by ",
                        text(report_.rel_max), ", above the tolerance of ", text(trace_.rel_max)));
        }
        report_.pass = report_.failure.empty();
    }

 private:
    static std::string text(double value) { return formatted("{:.3g}", value); }
    void problem(const std::string& what) {
        if (report_.failure.empty()) report_.failure = what;
    }

    static double distance(const TraceStep& step, std::span<const float> logits) {
        double difference = 0, recorded = 0;
        for (size_t i = 0; i < step.ids.size(); ++i) {
            const double was = step.logits[i], is = logits[step.ids[i]];
            difference += (is - was) * (is - was);
            recorded += was * was;
        }
        return recorded > 0 ? std::sqrt(difference / recorded) : std::sqrt(difference);
    }

    void flip(const TraceStep& step, int32_t got, std::span<const float> logits) {
        const double margin = step.ids.size() > 1 ? step.logits[0] - step.logits[1] : 0;
        const bool tie = !trace_.exact && margin < trace_.tie_margin;
        report_.flips.push_back(
            {step.position, step.ids[0], got, logits[step.ids[0]], logits[got], margin, tie});
        if (tie) return;
        problem(cat("at position ", step.position, " the best token is ", got, " instead of ",
                    step.ids[0], ", which led by ", text(margin)));
    }

    void exact(const TraceStep& step, std::span<const float> logits) {
        for (size_t i = 0; i < step.ids.size(); ++i) {
            if (logits[step.ids[i]] == step.logits[i]) continue;
            return problem(cat("the logit of token ", step.ids[i], " at position ", step.position,
                               " is not exactly the recorded one"));
        }
        if (step.logits_checksum == 0) return;
        if (checksum(logits.data(), logits.size_bytes()) != step.logits_checksum) {
            problem(cat("the logits at position ", step.position,
                        " are not exactly the recorded ones (checksum)"));
        }
    }

    const Trace& trace_;
    TraceReport& report_;
    std::vector<double> distances_;
};

Result<void> check_engine(const Engine& engine, const Trace& trace) {
    if (engine.options().index_keys != trace.index_keys) {
        const bool own = trace.index_keys == IndexKeys::own;
        return fail(Code::usage, cat("recorded with --index-keys ", own ? "own" : "reference",
                                     "; run with the same value"));
    }
    const int64_t length = static_cast<int64_t>(trace.prompt.size() + trace.tokens.size());
    if (length > engine.settings().context) {
        return fail(Code::usage, cat("needs a context of ", length, " tokens, but this run has ",
                                     engine.settings().context, "; raise it with -c"));
    }
    const auto outside = [&](int32_t id) { return id >= engine.config().vocab; };
    bool known = std::none_of(trace.prompt.begin(), trace.prompt.end(), outside) &&
                 std::none_of(trace.tokens.begin(), trace.tokens.end(), outside);
    for (const auto* steps : {&trace.prompt_steps, &trace.steps}) {
        for (const TraceStep& step : *steps) {
            known = known && std::none_of(step.ids.begin(), step.ids.end(), outside);
        }
    }
    if (known) return {};
    return fail(Code::usage, cat("recorded with another model (", printable(trace.model),
                                 "): it has token ids beyond this model's vocabulary of ",
                                 engine.config().vocab));
}

TraceStep make_step(int32_t position, int32_t token, std::span<const float> logits, int32_t best) {
    std::vector<int32_t> ids(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    const auto count = std::min(static_cast<size_t>(std::max(best, 1)), ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(),
                      [&](int32_t a, int32_t b) { return better(logits, a, b); });
    ids.resize(count);
    TraceStep step{.position = position, .token = token, .ids = ids, .logits = {}};
    for (int32_t id : ids) step.logits.push_back(logits[id]);
    step.logits_checksum = checksum(logits.data(), logits.size_bytes());
    return step;
}

}  // namespace

Result<TraceReport> compare(const Engine& engine, Session& session, const Trace& trace) {
    if (auto r = check_engine(engine, trace); !r) return tl::unexpected(r.error());
    TraceReport report;
    report.name = trace.name;
    Comparison comparison(trace, report);
    const auto prompt_step = [&](int32_t position, std::span<const float> logits) {
        if (static_cast<size_t>(position) < trace.prompt_steps.size()) {
            comparison.step(trace.prompt_steps[position], logits);
        }
    };
    session.reset();
    std::function<void(int32_t, std::span<const float>)> each;
    if (!trace.prompt_steps.empty()) each = prompt_step;
    auto logits = session.feed(trace.prompt, each);
    for (size_t i = 0; i < trace.steps.size(); ++i) {
        if (!logits) return tl::unexpected(logits.error());
        comparison.step(trace.steps[i], *logits);
        if (i + 1 < trace.steps.size()) logits = session.feed({&trace.tokens[i], 1});
    }
    comparison.finish();
    return report;
}

Result<Trace> record_trace(const Engine& engine, Session& session,
                           const std::vector<int32_t>& prompt, const RecordOptions& options) {
    Trace trace;
    trace.exact = true;
    trace.model = engine.model_name();
    trace.index_keys = engine.options().index_keys;
    trace.prompt = prompt;
    trace.origin = cat("sluice, ", engine.device_name());
    session.reset();
    std::function<void(int32_t, std::span<const float>)> each;
    if (options.prompt_steps) {
        each = [&](int32_t position, std::span<const float> logits) {
            trace.prompt_steps.push_back(make_step(position, -1, logits, options.best));
        };
    }
    auto logits = session.feed(prompt, each);
    const auto& end = engine.config().end_tokens;
    while (static_cast<int32_t>(trace.tokens.size()) < options.count) {
        if (!logits) return tl::unexpected(logits.error());
        const int32_t token = best_id(*logits);
        trace.steps.push_back(make_step(session.position() - 1, token, *logits, options.best));
        trace.tokens.push_back(token);
        if (options.on_token && !options.on_token(token)) break;
        if (std::find(end.begin(), end.end(), token) != end.end()) break;
        if (session.position() + 1 > engine.settings().context) break;
        logits = session.feed({&token, 1});
    }
    return trace;
}

}  // namespace sluice
