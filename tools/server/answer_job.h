// One request on its way through the engine, and what comes back: the seam between a connection's
// thread and the engine's.
//
// The engine never waits for a client. Pieces that are not taken are kept up to a limit; a client
// that falls behind further has its answer cancelled.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/error.h"
#include "tools/answer/generate.h"
#include "tools/answer/request.h"

namespace sluice {

class AnswerJob {
 public:
    // `streams`: the client wants the pieces; else only the whole answer.
    AnswerJob(std::string client, PreparedRequest prepared, bool streams)
        : client(std::move(client)), prepared(std::move(prepared)), streams_(streams) {}

    const std::string client;        // whose share of the queue this is
    const PreparedRequest prepared;  // without `cancel`
    bool streams() const { return streams_; }

    // Any thread: the answer is not wanted any more. The engine stops within one layer.
    void cancel() { cancelled_ = true; }
    const std::atomic<bool>& cancelled() const { return cancelled_; }
    std::atomic<double> prompt_done{0};  // 0..1
    std::atomic<uint64_t> tokens{0};     // generated so far

    // The engine's thread. False: stop.
    bool push(const AnswerStream::Piece& piece);
    void finish(Result<Answer> result);

    // The connection's thread. Waits until there is something, at most `patience`.
    struct Taken {
        std::vector<AnswerStream::Piece> pieces;
        bool finished = false;  // result() is there, and there will be no more pieces
    };
    Taken take(std::chrono::milliseconds patience);
    // Requires take() to have said `finished`.
    const Result<Answer>& result() const { return *result_; }

 private:
    static size_t size_of(const AnswerStream::Piece& piece);
    const bool streams_;
    std::atomic<bool> cancelled_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<AnswerStream::Piece> pieces_;
    size_t bytes_ = 0;  // of pieces_, about
    std::optional<Result<Answer>> result_;
};

}  // namespace sluice
