// The requests that wait for the one engine, in a fair order: round robin over clients, so that ten
// requests of one do not make another wait for all ten.
//
// Order: start-time fair queueing. A request's turn is one more than that of its client's request
// before it, but not before the turn that is being served; the lowest turn comes first, among equal
// ones the one that came first.
//
// Connections' threads push, ask for their place and leave; the engine's thread takes. All
// functions lock; none waits but next().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/clock.h"
#include "tools/server/answer_job.h"

namespace sluice {

class RequestQueue {
 public:
    explicit RequestQueue(size_t waiting_max) : waiting_max_(waiting_max) {}

    enum class Pushed { waits, full, stopped };
    Pushed push(std::shared_ptr<AnswerJob> job);
    // A client has gone: its request, waiting or running, is cancelled, and its place is free.
    void leave(const std::shared_ptr<AnswerJob>& job);
    // The next request to answer, or null when none has come within `patience`. From then on it is
    // the running one, until done().
    std::shared_ptr<AnswerJob> next(std::chrono::milliseconds patience);
    void done();

    // 1: next; 0: running or over.
    int64_t place(const AnswerJob& job) const;
    // Seconds until a request at this place is likely to begin, from the average so far.
    double expected_wait_s(int64_t place) const;
    // Seconds until there is likely to be room again: at least 1, at most 600.
    int64_t retry_after_s() const;

    // No request is taken on any more. All that wait or run are cancelled; those that wait end as
    // interrupted.
    void stop();

    size_t waiting() const;
    std::shared_ptr<AnswerJob> running() const;  // null: none

 private:
    struct Waiting {
        std::shared_ptr<AnswerJob> job;
        uint64_t turn;
    };
    double expected_wait_s_locked(int64_t place) const;

    const size_t waiting_max_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Waiting> waiting_;               // in the order in which they came
    std::map<std::string, uint64_t> next_turn_;  // by client, where it is later than turn_
    uint64_t turn_ = 0;                          // being served
    std::shared_ptr<AnswerJob> running_;
    Clock::time_point running_since_ = {};
    double average_s_ = 0;  // per request, recent ones weigh more; 0: none yet
    bool stopped_ = false;
};

}  // namespace sluice
