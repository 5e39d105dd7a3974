// Reads the stream of a chat completion (OpenAI's API) into an Answer. The events are hostile.
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "io/json.h"
#include "tools/answer/generate.h"

namespace sluice {

class ChatStream {
 public:
    static constexpr size_t text_max = 64 << 20;  // bytes of an answer with its reasoning

    // The data of one event; requires !ended(). The piece may be empty. Errors: io: no chunk of a
    // chat completion, or too much; the server's own error. Nothing is read after one.
    Result<AnswerStream::Piece> take(std::string_view data);

    // What is still to be shown when nothing more will come; call it once. Reasoning that never
    // ended was the answer, as it is for a model in this process; `stops` are looked for in it.
    AnswerStream::Piece finish(const std::vector<std::string>& stops);

    bool begun() const { return !answer_.text.empty() || !answer_.reasoning.empty(); }
    bool ended() const { return ended_; }        // there is nothing more to come
    bool complete() const { return finished_; }  // the server has said how the answer ended
    Answer& answer() { return answer_; }

 private:
    Result<AnswerStream::Piece> read_choice(const Json& choice);
    Result<void> read_finish(const Json& reason);
    void read_additions(const Json& chunk);
    void read_usage(const Json& usage);
    Answer answer_;
    bool ended_ = false, finished_ = false;
};

}  // namespace sluice
