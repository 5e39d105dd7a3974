// A session that reads no prompt twice, if the prompt cache can help it. It keeps the state
//   - behind every prompt but for its last token, for another answer to it, and for the next turn
//     where that leaves out the reasoning of this one;
//   - at the start of the last user message, if much is before it: that message may be edited;
//   - every checkpoint_step tokens of a long prompt;
//   - at the end of every answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/prompt_cache/prompt_cache.h"
#include "engine/text/chat_format.h"
#include "engine/text/tokenizer.h"
#include "tools/answer/token_source.h"

namespace sluice {

constexpr int32_t checkpoint_step = 4096;
constexpr int32_t checkpoints_most = 8;   // of those; a longer prompt has longer steps
constexpr int32_t checkpoint_worth = 32;  // tokens that must lie before a user message, since what
                                          // is kept anyway

// Where a prompt of which `kept` tokens are known is worth a checkpoint, ascending. `user`: the
// token that begins a user message; -1: none.
std::vector<int32_t> checkpoint_positions(std::span<const int32_t> prompt, int32_t kept,
                                          int32_t user);

class CachedSource : public TokenSource {
 public:
    CachedSource(Session& session, PromptCache& prompts, const Tokenizer& tokenizer,
                 const ChatTokens& tokens);
    ~CachedSource() override;
    CachedSource(const CachedSource&) = delete;
    CachedSource& operator=(const CachedSource&) = delete;
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids) override;
    KeptBy kept_by() const override { return kept_by_; }
    Result<std::span<const float>> feed(std::span<const int32_t> ids) override;
    Result<int32_t> feed_best(std::span<const int32_t> ids) override;
    void answered() override;
    // Keeps the next prompts' states at this position, too: where another prompt will differ.
    void also_at(int32_t position) { also_at_ = position; }
    RunStats stats() const override { return session_.stats(); }
    Result<void> files_unchanged() const override { return session_.files_unchanged(); }

 private:
    Session& session_;
    PromptCache& prompts_;
    int32_t user_;
    int32_t also_at_ = -1;  // -1: nowhere
    KeptBy kept_by_ = KeptBy::nothing;
};

}  // namespace sluice
