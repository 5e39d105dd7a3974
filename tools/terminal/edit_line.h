// The line that is being typed: its text, in units that the cursor steps over, and the cursor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// What one step of the cursor passes: a character with its combining marks, a line feed, a byte
// that is not UTF-8, or a whole paste.
struct Unit {
    std::string text;   // what is sent
    std::string shown;  // what stands on the screen; a line feed: itself
    int width = 1;      // columns of `shown`
    bool pasted = false;
};

class EditedLine {
 public:
    const std::vector<Unit>& units() const { return units_; }
    size_t cursor() const { return cursor_; }  // an index of units(), or its size
    bool empty() const { return units_.empty(); }
    std::string text() const;
    std::string text_before_cursor() const;
    // A line that was typed by hand: a command may be meant.
    bool typed() const;

    void insert(std::string_view text, bool pasted = false);
    // A paste as one unit where it is long, or would move the cursor; else as text.
    void insert_paste(std::string text);
    void assign(std::string_view text);

    void left();
    void right();
    void word_left();
    void word_right();
    void line_start();
    void line_end();
    bool line_up();  // false: this is the first line
    bool line_down();
    void erase_left();
    void erase_right();
    void erase_word_left();
    void erase_word_right();
    void erase_to_line_start();
    void erase_to_line_end();
    void put_back();  // what was erased last by a word or more
    void swap_units();

 private:
    void erase(size_t from, size_t to, bool keep);
    size_t start_of_line(size_t at) const;
    size_t end_of_line(size_t at) const;

    std::vector<Unit> units_, erased_;
    size_t cursor_ = 0;
    size_t pastes_ = 0;
};

// Columns that `text` takes on a terminal; control characters take none.
int text_width(std::string_view text);

}  // namespace sluice
