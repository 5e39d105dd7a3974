#include "engine/model/deepseek_v4/chat.h"

#include <array>
#include <utility>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "io/text.h"

namespace sluice {

namespace {

struct Word {
    std::string_view name;
    int number;
};
constexpr std::array<Word, 3> words{
    {{"low", effort_low}, {"high", effort_high}, {"max", effort_max}}};
constexpr std::string_view one_text = "REASONING_EFFORT_MAX",
                           all_texts = "REASONING_EFFORT_PROMPTS";

// The words that a release knows, and the constants with their texts; empty: no text.
using Known = std::vector<std::pair<std::string_view, std::string>>;

Result<Known> known_efforts(const PromptWording& wording) {
    Known known;
    for (const Word& word : words) {
        std::string constant = python_entry(all_texts, word.name);
        if (wording.has(constant)) known.emplace_back(word.name, std::move(constant));
    }
    if (!known.empty()) {
        if (known.front().first != words[0].name) known.insert(known.begin(), {words[0].name, ""});
        return known;
    }
    if (!wording.has(one_text))
        return fail(Code::not_found, cat(wording.files(), ": no constant ", all_texts, " or ",
                                         one_text, ", which reasoning efforts need"));
    return Known{{words[1].name, ""}, {words[2].name, std::string(one_text)}};
}

Result<Effort> effort(std::optional<int> asked, const PromptWording* wording) {
    if (!asked) return Effort{};
    if (*asked < effort_min || *asked > effort_max)
        return fail(Code::usage,
                    cat("reasoning effort ", *asked, " is out of range: it must be 1 to 100"));
    if (wording == nullptr)
        return fail(Code::not_found, cat("reasoning efforts need the model's own texts, ",
                                         deepseek::chat_wording.pattern(), " in its folder"));
    const auto known = known_efforts(*wording);
    if (!known) return tl::unexpected(known.error());
    size_t i = 0;
    while (words[i].number < *asked) ++i;
    std::string names;
    for (const auto& [name, constant] : *known) {
        names += cat(names.empty() ? "" : ", ", name);
        if (name != words[i].name) continue;
        if (constant.empty()) return Effort{std::string(name), ""};
        auto text = wording->text(constant);
        if (!text) return tl::unexpected(std::move(text).error());
        return Effort{std::string(name), std::move(*text)};
    }
    return fail(Code::usage, cat("reasoning effort ", words[i].name,
                                 " is unknown to this release of the ", "model, which knows ",
                                 names, "; without an effort it thinks as it does by ", "default"));
}

}  // namespace

const ChatFormat deepseek_v4_chat{.tokens = &deepseek::chat_tokens,
                                  .wording = &deepseek::chat_wording,
                                  .tools = &deepseek_v4_tools,
                                  .head_token = "",
                                  .later_system_token = deepseek::chat_tokens.user,
                                  .joins_user_messages = true,
                                  .answer_begins_with_reminder = true,
                                  .effort = effort,
                                  .efforts_need_wording = true};

}  // namespace sluice
