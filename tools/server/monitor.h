// What the server did and does, for /metrics, /live and the page. The engine's thread notes down,
// once a second while it works; any thread reads the latest note.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "io/clock.h"
#include "tools/answer/generate.h"

namespace sluice {

struct AnswerTotals {
    uint64_t answers = 0;  // that ended, however
    uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
    double prompt_s = 0, decode_s = 0;
};

struct Note {
    RunStats run;  // everything since the model was loaded, of each drive, too
    AnswerTotals totals;
    std::vector<double> drive_bytes_s;  // now: while the last second was noted
    double tok_s = 0, limit_tok_s = 0;  // of the running answer, else of the last one; 0: none yet
    std::string binds;                  // "drive", "link", "cpu" or "gpu"; empty: not known
    CachedExperts experts;
};

class Monitor {
 public:
    // Engine thread. `session` is the one that answers.
    void begin(Session& session);     // a request; also call it once before the first one
    void progress(Session& session);  // the prompt is being read
    void token(Session& session);
    // Adds the answer up, and clears the session's statistics.
    void end(Session& session, const Result<Answer>& answer);

    // Any thread.
    Note latest() const;
    void count_reply(const std::string& endpoint, int status);
    void count_refusal();  // by a full queue
    std::map<std::pair<std::string, int>, uint64_t> replies() const;
    uint64_t refusals() const;

 private:
    void note(Session& session);
    void note_speed(const RunStats& run, Clock::time_point now);

    // Engine thread only.
    RunStats before_;        // of the requests before the running one
    RunStats decode_begin_;  // the session's, at the first token
    Clock::time_point decode_since_ = {}, noted_ = {};
    uint64_t tokens_ = 0;  // of the running answer

    mutable std::mutex mutex_;  // guards all below
    Note note_;
    std::map<std::pair<std::string, int>, uint64_t> replies_;
    uint64_t refusals_ = 0;
};

}  // namespace sluice
