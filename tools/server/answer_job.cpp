#include "tools/server/answer_job.h"

#include <utility>

namespace sluice {

namespace {

constexpr size_t kept_max = 4 << 20;  // bytes of pieces that the client has not taken

}  // namespace

size_t AnswerJob::size_of(const AnswerStream::Piece& piece) {
    size_t bytes = sizeof piece + piece.reasoning.size() + piece.content.size();
    for (const ToolCall& call : piece.calls) bytes += call.name.size() + call.arguments.size();
    constexpr size_t per_position = 512;  // with twenty alternatives
    return bytes + piece.logprobs.size() * per_position;
}

bool AnswerJob::push(const AnswerStream::Piece& piece) {
    ++tokens;
    if (!streams_) return !cancelled_;
    const std::lock_guard lock(mutex_);
    bytes_ += size_of(piece);
    if (bytes_ > kept_max) cancelled_ = true;
    if (cancelled_) return false;
    pieces_.push_back(piece);
    changed_.notify_one();
    return true;
}

void AnswerJob::finish(Result<Answer> result) {
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    changed_.notify_one();
}

AnswerJob::Taken AnswerJob::take(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return !pieces_.empty() || result_; });
    bytes_ = 0;
    return {std::exchange(pieces_, {}), result_.has_value()};
}

}  // namespace sluice
