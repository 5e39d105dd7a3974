#include "tools/server/answer_loop.h"

namespace sluice {

Result<Answer> AnswerLoop::answer(AnswerJob& job) {
    if (job.cancelled()) return fail(Code::interrupted, "the client has gone");
    GenerateOptions options = job.prepared.options;
    options.cancel = &job.cancelled();
    return generate(source_, tokenizer_, end_tokens_, job.prepared.ids, options,
                    [&](const AnswerStream::Piece& piece) {
                        const bool wanted = job.push(piece);
                        hooks_.token(job);
                        return wanted;
                    });
}

void AnswerLoop::step(std::chrono::milliseconds patience) {
    const std::shared_ptr<AnswerJob> job = queue_.next(patience);
    if (!job) return;
    hooks_.begin(*job);
    auto result = answer(*job);
    hooks_.end(*job, result);
    queue_.done();
    job->finish(std::move(result));
}

}  // namespace sluice
