// The content of messages: strings, or lists of typed parts of which only text is read.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tools/api/fields.h"

namespace sluice {

// A kind of part, and the member that holds its text.
struct TextPart {
    std::string_view type, member;
};

// A string, or a list of parts of the types given, whose texts are joined by an empty line, as in
// the model's chat encoding. unsupported: a part of another type ("messages[0].content[1]:
// image_url: only text is read here").
Result<std::string> read_content(const Json& value, std::initializer_list<TextPart> parts);
tl::unexpected<Error> unread_part(const Json& part, std::string_view type);

// Adds `text` to what is there, after an empty line.
void add_text(std::string_view text, std::string& all);

// The arguments of an earlier tool call: text that holds a JSON object; "" stands for {}.
Result<std::string> read_arguments(const Json& value);

// Puts the draft's instructions first, and checks that the conversation ends with something to
// answer or, with draft.may_continue, to continue. An answer that goes on with a message without
// reasoning does not think. unsupported: it ends with an assistant's message that cannot be
// continued, or not with the form of the answer or the thinking that is asked for.
Result<void> close_messages(std::string_view field, Draft& draft);

}  // namespace sluice
