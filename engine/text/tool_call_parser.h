// Finds the tool calls of an answer (tool_syntax.h). The marker counts only as a token: text that
// looks like it is text.
//
// The block of calls ends the content, and a well-formed one the answer: its calls are handed out
// together, when it closes. Up to two line ends in front of it belong to it. White space between
// its tags does not matter.
//
// A block with anything wrong with it yields no call at all, also not those that were complete
// before: its text is content, marker included, and so is all that follows. malformed() then says
// why. Wrong are: a marker without '<' or '</' in front, tags in another order or with other words,
// a missing name, a parameter twice, a value with string="false" that is not JSON, nothing called,
// another control token, the end of the answer, more than calls_max calls or block_bytes_max bytes.
//
// Time is linear in the text, however it is cut into pieces. One owner.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tool_syntax.h"

namespace sluice {

class ToolCallParser {
 public:
    static constexpr size_t calls_max = 128, block_bytes_max = size_t{4} << 20;

    // The syntax outlives the parser. Calls get the ids PREFIX1, PREFIX2, ...
    ToolCallParser(const ToolSyntax& syntax, std::string id_prefix);

    struct Piece {
        std::string content;
        std::vector<ToolCall> calls;
    };
    Piece text(std::string_view text);  // UTF-8
    Piece marker();
    // Any other control token: what was held back is content, an open block malformed.
    Piece interrupt();
    // The answer ends: the same. Nothing happens once closed().
    Piece finish();

    bool closed() const { return state_ == State::closed; }      // the calls have been handed out
    const std::string& malformed() const { return malformed_; }  // why; empty: nothing was

 private:
    enum class State { content, block, closed, malformed };
    enum class Tag { calls, invoke, parameter, parameter_end, invoke_end, calls_end };

    std::string_view tag_text() const;
    bool tag_fits() const;
    void content(std::string_view text, Piece& piece);
    void segment();
    void next_tag(bool closing);
    void open_invoke(std::string_view rest);
    void read_parameter(std::string_view rest);
    void close_invoke();
    void refuse(std::string why);
    void give_back(Piece& piece);

    const ToolSyntax* syntax_;
    std::string id_prefix_;
    State state_ = State::content;
    std::string held_;  // the block's text, or what may begin one
    // In a block: the tag behind the last marker, and the text since.
    Tag tag_ = Tag::calls;
    std::string segment_;
    std::vector<ToolCall> calls_;
    std::string malformed_;
};

}  // namespace sluice
