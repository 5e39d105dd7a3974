#include "tools/answer/cached_source.h"

#include <algorithm>

namespace sluice {

std::vector<int32_t> checkpoint_positions(std::span<const int32_t> prompt, int32_t kept,
                                          int32_t user) {
    const auto length = static_cast<int32_t>(prompt.size());
    std::vector<int32_t> positions;
    int32_t step = checkpoint_step;
    while (length / step > checkpoints_most) step *= 2;
    for (int32_t at = step; at < length - 1; at += step) {
        if (at > kept) positions.push_back(at);
    }
    const auto last = std::find(prompt.rbegin(), prompt.rend(), user);
    if (last != prompt.rend()) {
        const auto begin = static_cast<int32_t>(prompt.rend() - last) - 1;
        if (begin - kept >= checkpoint_worth) positions.push_back(begin);
    }
    if (length - 1 > kept) positions.push_back(length - 1);
    std::ranges::sort(positions);
    return positions;
}

CachedSource::CachedSource(Session& session, PromptCache& prompts, const Tokenizer& tokenizer,
                           const ChatTokens& tokens)
    : session_(session), prompts_(prompts), user_(tokenizer.id(tokens.user).value_or(-1)) {}

CachedSource::~CachedSource() {
    prompts_.watch({}, {});
}

Result<int32_t> CachedSource::rewind_to_prefix(std::span<const int32_t> ids) {
    const auto kept = prompts_.resume(ids);
    if (!kept) return tl::unexpected(kept.error());
    kept_by_ = kept->by;
    auto positions = checkpoint_positions(ids, kept->tokens, user_);
    const bool inside = also_at_ > kept->tokens && also_at_ < static_cast<int32_t>(ids.size());
    if (inside && !std::ranges::binary_search(positions, also_at_)) {
        positions.insert(std::ranges::upper_bound(positions, also_at_), also_at_);
    }
    prompts_.watch(ids, std::move(positions));
    return kept->tokens;
}

Result<std::span<const float>> CachedSource::feed(std::span<const int32_t> ids) {
    return session_.feed(ids);
}

Result<int32_t> CachedSource::feed_best(std::span<const int32_t> ids) {
    return session_.feed_best(ids);
}

void CachedSource::answered() {
    prompts_.watch({}, {});
    prompts_.store();
}

}  // namespace sluice
