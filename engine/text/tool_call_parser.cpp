#include "engine/text/tool_call_parser.h"

#include <algorithm>
#include <utility>

#include "engine/text/python_json.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view name_begin = " name=\"", name_end = "\">", string_begin = "\" string=\"";

std::string_view without_space(std::string_view text) {
    const size_t last = text.find_last_not_of(" \t\r\n");
    return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

bool starts_alike(std::string_view a, std::string_view b) {
    const size_t common = std::min(a.size(), b.size());
    return a.substr(0, common) == b.substr(0, common);
}

// How much of the end of `text` may belong to a block: line ends, '<'.
size_t possible_beginning(std::string_view text) {
    size_t count = text.ends_with('<') ? 1 : 0;
    for (int i = 0; i < 2; ++i) {
        if (count < text.size() && text[text.size() - count - 1] == '\n') ++count;
    }
    return count;
}

}  // namespace

ToolCallParser::ToolCallParser(const ToolSyntax& syntax, std::string id_prefix)
    : syntax_(&syntax), id_prefix_(std::move(id_prefix)) {}

ToolCallParser::Piece ToolCallParser::text(std::string_view text) {
    Piece piece;
    switch (state_) {
        case State::content:
            content(text, piece);
            break;
        case State::block:
            held_ += text;
            segment_ += text;
            if (!tag_fits())
                refuse("unknown tag");
            else if (held_.size() > block_bytes_max)
                refuse(cat("more than ", size_text(block_bytes_max)));
            else if (tag_ == Tag::calls_end && segment_.size() > syntax_->calls.size())
                state_ = State::closed;
            break;
        case State::malformed:
            piece.content = text;
            break;
        case State::closed:
            break;
    }
    if (closed()) piece.calls = std::exchange(calls_, {});
    give_back(piece);
    return piece;
}

void ToolCallParser::content(std::string_view text, Piece& piece) {
    held_ += text;
    const size_t shown = held_.size() - possible_beginning(held_);
    piece.content.append(held_, 0, shown);
    held_.erase(0, shown);
}

ToolCallParser::Piece ToolCallParser::marker() {
    Piece piece;
    if (closed()) return piece;
    const bool begins = state_ == State::content && held_.ends_with('<');
    if (state_ == State::content && !begins) refuse("a marker that is not in a tag");
    if (state_ == State::block) segment();
    held_ += syntax_->marker;
    if (begins) state_ = State::block;
    give_back(piece);
    return piece;
}

ToolCallParser::Piece ToolCallParser::interrupt() {
    Piece piece;
    if (state_ == State::block) refuse("a control token in it");
    if (state_ == State::content) piece.content = std::exchange(held_, {});
    give_back(piece);
    return piece;
}

ToolCallParser::Piece ToolCallParser::finish() {
    if (state_ == State::block) refuse("it does not end");
    return interrupt();
}

void ToolCallParser::refuse(std::string why) {
    state_ = State::malformed;
    malformed_ = std::move(why);
    calls_.clear();
}

void ToolCallParser::give_back(Piece& piece) {
    if (state_ == State::malformed) piece.content.insert(0, std::exchange(held_, {}));
}

// The tag's text up to where it may vary.
std::string_view ToolCallParser::tag_text() const {
    switch (tag_) {
        case Tag::invoke:
        case Tag::invoke_end:
            return syntax_->invoke;
        case Tag::parameter:
        case Tag::parameter_end:
            return syntax_->parameter;
        default:
            return syntax_->calls;
    }
}

bool ToolCallParser::tag_fits() const {
    const bool named = tag_ == Tag::invoke || tag_ == Tag::parameter;
    const std::string_view word = tag_text(), rest = named ? name_begin : ">";
    const std::string_view text = segment_;
    return starts_alike(text, word) &&
           (text.size() <= word.size() || starts_alike(text.substr(word.size()), rest));
}

// A marker ends the text behind the one before it: TAG REST>BODY< or TAG REST>BODY</
void ToolCallParser::segment() {
    std::string_view text = segment_;
    if (!text.ends_with('<') && !text.ends_with("</"))
        return refuse("a marker that is not in a tag");
    const bool closing = text.ends_with("</");
    text.remove_suffix(closing ? 2 : 1);
    const std::string_view word = tag_text();
    if (!text.starts_with(word)) return refuse("unknown tag");
    text.remove_prefix(word.size());
    if (tag_ == Tag::parameter) {
        read_parameter(text);
    } else {
        text = without_space(text);
        if (tag_ == Tag::invoke)
            open_invoke(text);
        else if (text != ">")
            refuse("text between its tags");
    }
    if (state_ == State::block) next_tag(closing);
    segment_.clear();
}

void ToolCallParser::next_tag(bool closing) {
    switch (tag_) {
        case Tag::calls:
            if (closing) return refuse("no call in it");
            tag_ = Tag::invoke;
            break;
        case Tag::invoke:
        case Tag::parameter_end:
            if (closing) close_invoke();
            tag_ = closing ? Tag::invoke_end : Tag::parameter;
            break;
        case Tag::parameter:
            if (!closing) return refuse("a tag in a parameter");
            tag_ = Tag::parameter_end;
            break;
        case Tag::invoke_end:
            tag_ = closing ? Tag::calls_end : Tag::invoke;
            break;
        case Tag::calls_end:
            refuse("unknown tag");
    }
}

void ToolCallParser::open_invoke(std::string_view rest) {
    if (!rest.starts_with(name_begin) || !rest.ends_with(name_end) ||
        rest.size() <= name_begin.size() + name_end.size())
        return refuse("a call without a name");
    if (calls_.size() == calls_max) return refuse(cat("more than ", calls_max, " calls"));
    rest.remove_prefix(name_begin.size());
    rest.remove_suffix(name_end.size());
    calls_.push_back({cat(id_prefix_, calls_.size() + 1), std::string(rest), "{"});
}

void ToolCallParser::read_parameter(std::string_view rest) {
    const size_t end = rest.find(string_begin);
    if (!rest.starts_with(name_begin) || end < name_begin.size() || end == std::string_view::npos)
        return refuse("a parameter without a name or kind");
    const std::string_view key = rest.substr(name_begin.size(), end - name_begin.size());
    rest.remove_prefix(end + string_begin.size());
    const bool string = rest.starts_with("true\">");
    if (!string && !rest.starts_with("false\">")) return refuse("a parameter of an unknown kind");
    const std::string_view value = rest.substr(rest.find('>') + 1);
    if (!string && !Json::parse(value))
        return refuse(cat("the value of ", printable(key), " is not valid JSON"));
    std::string& arguments = calls_.back().arguments;
    if (arguments.size() > 1) arguments += ", ";
    arguments += cat(python_json_string(key), ": ");
    arguments += string ? python_json_string(value) : std::string(value);
}

void ToolCallParser::close_invoke() {
    ToolCall& call = calls_.back();
    call.arguments += '}';
    // Nested too deeply, or a parameter twice: each value by itself was valid.
    if (auto json = Json::parse(call.arguments); !json)
        refuse(cat("the arguments of ", printable(call.name), ": ", json.error().message));
}

}  // namespace sluice
