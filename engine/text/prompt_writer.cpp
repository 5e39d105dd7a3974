#include "engine/text/prompt_writer.h"

#include <utility>

#include "io/text.h"

namespace sluice {

void PromptWriter::control(std::string_view name) {
    flush();
    require(name);
    if (const auto id = tokenizer_.id(name)) ids_.push_back(*id);
}

void PromptWriter::require(std::string_view name) {
    if (missing_.empty() && !tokenizer_.id(name)) missing_ = name;
}

void PromptWriter::wording(std::string_view part) {
    for (const Tokenizer::Stretch& stretch : tokenizer_.split_at_added(part)) {
        if (stretch.id < 0) {
            text(stretch.text);
            continue;
        }
        flush();
        ids_.push_back(stretch.id);
    }
}

Result<std::vector<int32_t>> PromptWriter::take(std::string_view needed) {
    flush();
    if (missing_.empty()) return std::move(ids_);
    return fail(Code::unsupported, cat(printable(tokenizer_.source()), " has no token '", missing_,
                                       "', which ", needed));
}

void PromptWriter::flush() {
    const auto ids = tokenizer_.encode(text_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    text_.clear();
}

}  // namespace sluice
