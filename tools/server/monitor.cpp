#include "tools/server/monitor.h"

#include <chrono>

#include "tools/answer/report.h"

namespace sluice {

namespace {

constexpr std::chrono::seconds note_every{1};

std::vector<double> drive_rates(const RunStats& run, const RunStats& before, double seconds) {
    std::vector<double> out;
    for (size_t i = 0; i < run.drives.size(); ++i) {
        const uint64_t earlier = i < before.drives.size() ? before.drives[i].bytes : 0;
        out.push_back(rate(static_cast<double>(run.drives[i].bytes - earlier), seconds));
    }
    return out;
}

void add(AnswerTotals& totals, const Result<Answer>& answer) {
    ++totals.answers;
    if (!answer) return;
    totals.prompt_tokens += answer->prompt_tokens;
    totals.cached_tokens += answer->cached_tokens;
    totals.completion_tokens += answer->completion_tokens;
    totals.prompt_s += answer->prompt_s;
    totals.decode_s += answer->decode_s;
}

}  // namespace

void Monitor::begin(Session& session) {
    tokens_ = 0;
    note(session);
}

void Monitor::token(Session& session) {
    const auto now = Clock::now();
    if (++tokens_ == 1) {
        decode_begin_ = session.stats();
        decode_since_ = now;
    }
    if (now - noted_ >= note_every) note(session);
}

void Monitor::progress(Session& session) {
    if (Clock::now() - noted_ >= note_every) note(session);
}

void Monitor::end(Session& session, const Result<Answer>& answer) {
    tokens_ = 0;  // the last piece may have come with no token
    note(session);
    before_ = before_ + session.stats();
    session.clear_stats();
    const std::lock_guard lock(mutex_);
    add(note_.totals, answer);
    if (!answer || answer->decoded() == 0) return;
    const Limit limit = limit_of(answer->decode, answer->decoded(), answer->decode_s);
    note_.tok_s = rate(static_cast<double>(answer->decoded()), answer->decode_s);
    note_.limit_tok_s = limit.tok_s;
    note_.binds = limit.binds;
}

// The speed since the first token of the running answer. Requires the lock.
void Monitor::note_speed(const RunStats& run, Clock::time_point now) {
    if (tokens_ < 2) return;
    const double seconds = to_seconds(now - decode_since_);
    const Limit limit = limit_of(run - decode_begin_, tokens_ - 1, seconds);
    note_.tok_s = rate(static_cast<double>(tokens_ - 1), seconds);
    note_.limit_tok_s = limit.tok_s;
    note_.binds = limit.binds;
}

void Monitor::note(Session& session) {
    const auto now = Clock::now();
    const RunStats run = session.stats();
    RunStats all = before_ + run;
    CachedExperts experts = session.cached_experts();
    const std::lock_guard lock(mutex_);
    note_.drive_bytes_s = drive_rates(all, note_.run, to_seconds(now - noted_));
    note_.run = std::move(all);
    note_.experts = std::move(experts);
    note_speed(run, now);
    noted_ = now;
}

Note Monitor::latest() const {
    const std::lock_guard lock(mutex_);
    return note_;
}

void Monitor::count_reply(const std::string& endpoint, int status) {
    const std::lock_guard lock(mutex_);
    ++replies_[{endpoint, status}];
}

void Monitor::count_refusal() {
    const std::lock_guard lock(mutex_);
    ++refusals_;
}

std::map<std::pair<std::string, int>, uint64_t> Monitor::replies() const {
    const std::lock_guard lock(mutex_);
    return replies_;
}

uint64_t Monitor::refusals() const {
    const std::lock_guard lock(mutex_);
    return refusals_;
}

}  // namespace sluice
