// Who answers a conversation: a model in this process, or a server. The seam behind chat and
// one-shot.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/text/prompt.h"
#include "io/error.h"
#include "tools/answer/generate.h"
#include "tools/answer/report.h"
#include "tools/options/options.h"

namespace sluice {

// Used by one thread. Shows on stderr, on a terminal, what it does before the first piece.
class Answerer {
 public:
    virtual ~Answerer() = default;
    // What later answers use; facts() follows.
    virtual void apply(const Options& options) = 0;
    virtual const RunFacts& facts() const = 0;
    // The answer to the last message. `turn`: how many answers came before; each has random numbers
    // of its own. Ctrl-C ends it. Errors are those of generate().
    virtual Result<Answer> answer(const std::vector<Message>& messages, uint64_t turn,
                                  const PieceSink& sink) = 0;
    // The next messages are those of another conversation.
    virtual void forget() {}
    // A piece of work that may be done while nobody asks; returns whether more is left.
    virtual bool idle_work() { return false; }
    // Keeps what outlasts the run. Call it once, behind the last answer.
    virtual Result<void> finish() { return {}; }
};

}  // namespace sluice
