#include "tools/server/request_queue.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

constexpr double newest_weight = 0.3;  // of the latest request in the average

}  // namespace

RequestQueue::Pushed RequestQueue::push(std::shared_ptr<AnswerJob> job) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return Pushed::stopped;
    if (waiting_.size() >= waiting_max_) return Pushed::full;
    if (waiting_.empty() && !running_) next_turn_.clear();
    uint64_t& next = next_turn_[job->client];
    const uint64_t turn = std::max(next, turn_);
    next = turn + 1;
    waiting_.push_back({std::move(job), turn});
    changed_.notify_one();
    return Pushed::waits;
}

void RequestQueue::leave(const std::shared_ptr<AnswerJob>& job) {
    job->cancel();
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& one) { return one.job == job; });
}

std::shared_ptr<AnswerJob> RequestQueue::next(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !waiting_.empty() || stopped_; });
    if (waiting_.empty()) return nullptr;
    const auto first =
        std::min_element(waiting_.begin(), waiting_.end(),
                         [](const Waiting& a, const Waiting& b) { return a.turn < b.turn; });
    running_ = first->job;
    running_since_ = Clock::now();
    turn_ = first->turn;
    waiting_.erase(first);
    std::erase_if(next_turn_, [&](const auto& one) { return one.second <= turn_; });
    return running_;
}

void RequestQueue::done() {
    const std::lock_guard lock(mutex_);
    const double seconds = seconds_since(running_since_);
    average_s_ = average_s_ > 0 ? average_s_ + newest_weight * (seconds - average_s_) : seconds;
    running_.reset();
}

int64_t RequestQueue::place(const AnswerJob& job) const {
    const std::lock_guard lock(mutex_);
    const auto own = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& one) { return one.job.get() == &job; });
    if (own == waiting_.end()) return 0;
    int64_t place = 1;
    for (auto one = waiting_.begin(); one != waiting_.end(); ++one) {
        place += one->turn < own->turn || (one->turn == own->turn && one < own);
    }
    return place;
}

double RequestQueue::expected_wait_s_locked(int64_t place) const {
    const double run = running_ ? seconds_since(running_since_) : 0;
    const double rest = running_ ? std::max(0.0, average_s_ - run) : 0;
    return rest + static_cast<double>(std::max<int64_t>(0, place - 1)) * std::max(average_s_, run);
}

double RequestQueue::expected_wait_s(int64_t place) const {
    const std::lock_guard lock(mutex_);
    return expected_wait_s_locked(place);
}

// There is room when the running request is over.
int64_t RequestQueue::retry_after_s() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(std::clamp(std::ceil(expected_wait_s_locked(1)), 1.0, 600.0));
}

void RequestQueue::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (running_) running_->cancel();
    for (const Waiting& one : waiting_) {
        one.job->cancel();
        one.job->finish(fail(Code::interrupted, "the server is shutting down"));
    }
    waiting_.clear();
    changed_.notify_all();
}

size_t RequestQueue::waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
}

std::shared_ptr<AnswerJob> RequestQueue::running() const {
    const std::lock_guard lock(mutex_);
    return running_;
}

}  // namespace sluice
