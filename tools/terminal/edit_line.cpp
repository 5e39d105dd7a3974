#include "tools/terminal/edit_line.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/text/utf8.h"
#include "io/counted.h"
#include "io/text.h"
#include "tools/terminal/terminal.h"

namespace sluice {

namespace {

constexpr size_t paste_shown_max = 200;  // bytes

bool is_break(const Unit& unit) {
    return unit.text == "\n";
}

// Part of a word for the keys that move by words.
bool in_word(const Unit& unit) {
    const auto first = static_cast<unsigned char>(unit.text[0]);
    return unit.text.size() > 1 || std::isalnum(first) || first == '_' || first >= 0x80;
}

char32_t last_character(std::string_view text) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    return utf8_at(text, at).value;
}

// Whether the character belongs to the one before it: a combining mark, a joined emoji.
bool joins(const Unit& before, char32_t value) {
    if (before.shown != before.text || is_break(before)) return false;
    return !utf8proc_grapheme_break(static_cast<utf8proc_int32_t>(last_character(before.text)),
                                    static_cast<utf8proc_int32_t>(value));
}

Unit unit_of(std::string_view bytes, const Utf8Step& step) {
    std::string text(bytes);
    if (step.state != Utf8State::whole) return {text, "\xef\xbf\xbd", 1};
    if (text == "\n") return {text, text, 0};
    std::string shown = text == "\t" ? " " : visible(text);
    const int width = text_width(shown);
    return {std::move(text), std::move(shown), width};
}

}  // namespace

int text_width(std::string_view text) {
    int width = 0;
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_at(text, at);
        const bool whole = step.state == Utf8State::whole;
        width += whole ? utf8proc_charwidth(static_cast<utf8proc_int32_t>(step.value)) : 1;
        at += step.bytes;
    }
    return width;
}

std::string EditedLine::text() const {
    std::string out;
    for (const Unit& unit : units_) out += unit.text;
    return out;
}

std::string EditedLine::text_before_cursor() const {
    std::string out;
    for (size_t i = 0; i < cursor_; ++i) out += units_[i].text;
    return out;
}

bool EditedLine::typed() const {
    return !units_.empty() && !units_.front().pasted && text().find('\n') == std::string::npos;
}

void EditedLine::insert(std::string_view text, bool pasted) {
    while (!text.empty()) {
        const Utf8Step step = utf8_at(text, 0);
        const std::string_view bytes = text.substr(0, step.bytes);
        text.remove_prefix(step.bytes);
        Unit* before = cursor_ > 0 ? &units_[cursor_ - 1] : nullptr;
        if (before && step.state == Utf8State::whole && joins(*before, step.value)) {
            before->text += bytes;
            before->shown = before->text;
            before->width = std::min(2, text_width(before->text));
            continue;
        }
        Unit unit = unit_of(bytes, step);
        unit.pasted = pasted;
        units_.insert(units_.begin() + static_cast<long>(cursor_), std::move(unit));
        ++cursor_;
    }
}

void EditedLine::insert_paste(std::string text) {
    if (text.empty()) return;
    const bool plain = text.size() <= paste_shown_max && visible(text) == text &&
                       text.find_first_of("\n\t") == std::string::npos;
    if (plain) return insert(text, true);
    const auto lines = static_cast<uint64_t>(1 + std::count(text.begin(), text.end(), '\n'));
    std::string shown = cat("[pasted ", ++pastes_, ": ", counted(lines, "line"), ", ",
                            counted(text.size(), "byte"), "]");
    const int width = static_cast<int>(shown.size());
    units_.insert(units_.begin() + static_cast<long>(cursor_),
                  Unit{std::move(text), std::move(shown), width, true});
    ++cursor_;
}

void EditedLine::assign(std::string_view text) {
    units_.clear();
    cursor_ = 0;
    constexpr size_t shown_max = 2000;
    if (text.size() > shown_max) return insert_paste(std::string(text));
    insert(text);
}

void EditedLine::left() {
    if (cursor_ > 0) --cursor_;
}
void EditedLine::right() {
    if (cursor_ < units_.size()) ++cursor_;
}
void EditedLine::word_left() {
    while (cursor_ > 0 && !in_word(units_[cursor_ - 1])) --cursor_;
    while (cursor_ > 0 && in_word(units_[cursor_ - 1])) --cursor_;
}
void EditedLine::word_right() {
    while (cursor_ < units_.size() && !in_word(units_[cursor_])) ++cursor_;
    while (cursor_ < units_.size() && in_word(units_[cursor_])) ++cursor_;
}

size_t EditedLine::start_of_line(size_t at) const {
    while (at > 0 && !is_break(units_[at - 1])) --at;
    return at;
}
size_t EditedLine::end_of_line(size_t at) const {
    while (at < units_.size() && !is_break(units_[at])) ++at;
    return at;
}
void EditedLine::line_start() {
    cursor_ = start_of_line(cursor_);
}
void EditedLine::line_end() {
    cursor_ = end_of_line(cursor_);
}
bool EditedLine::line_up() {
    const size_t start = start_of_line(cursor_);
    if (start == 0) return false;
    cursor_ = std::min(start - 1, start_of_line(start - 1) + (cursor_ - start));
    return true;
}
bool EditedLine::line_down() {
    const size_t end = end_of_line(cursor_);
    if (end == units_.size()) return false;
    cursor_ = std::min(end_of_line(end + 1), end + 1 + (cursor_ - start_of_line(cursor_)));
    return true;
}

void EditedLine::erase(size_t from, size_t to, bool keep) {
    if (from == to) return;
    const auto first = units_.begin() + static_cast<long>(from);
    const auto last = units_.begin() + static_cast<long>(to);
    if (keep) erased_.assign(std::make_move_iterator(first), std::make_move_iterator(last));
    units_.erase(first, last);
    cursor_ = from;
}
void EditedLine::erase_left() {
    if (cursor_ > 0) erase(cursor_ - 1, cursor_, false);
}
void EditedLine::erase_right() {
    if (cursor_ < units_.size()) erase(cursor_, cursor_ + 1, false);
}
void EditedLine::erase_word_left() {
    const size_t end = cursor_;
    word_left();
    erase(cursor_, end, true);
}
void EditedLine::erase_word_right() {
    const size_t start = cursor_;
    word_right();
    erase(start, cursor_, true);
}
void EditedLine::erase_to_line_start() {
    erase(start_of_line(cursor_), cursor_, true);
}
void EditedLine::erase_to_line_end() {
    erase(cursor_, end_of_line(cursor_), true);
}
void EditedLine::put_back() {
    units_.insert(units_.begin() + static_cast<long>(cursor_), erased_.begin(), erased_.end());
    cursor_ += erased_.size();
}
void EditedLine::swap_units() {
    if (cursor_ == 0 || units_.size() < 2) return;
    if (cursor_ == units_.size()) --cursor_;
    std::swap(units_[cursor_ - 1], units_[cursor_]);
    ++cursor_;
}

}  // namespace sluice
