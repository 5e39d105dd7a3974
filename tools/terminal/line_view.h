// How a line that is being typed is drawn: as the text that moves the cursor and replaces what was
// drawn before.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/terminal/edit_line.h"
#include "tools/terminal/terminal.h"

namespace sluice {

class LineView {
 public:
    // `plain`: the terminal knows no escape codes; the line is then one row that scrolls sideways.
    explicit LineView(bool plain) : plain_(plain) {}

    // Nothing is drawn yet; the cursor is at the start of a row.
    void begin();
    std::string draw(std::string_view prompt, const EditedLine& line, ScreenSize screen);
    // Behind the last row, at the start of a new one; as begin() then.
    std::string finish();

 private:
    struct Rows {
        std::vector<std::string> text;
        std::vector<size_t> widths;
        size_t cursor_row = 0, cursor_column = 0;
    };
    static Rows rows_of(std::string_view prompt, const EditedLine& line, size_t columns);
    std::string draw_plain(std::string_view prompt, const EditedLine& line, size_t columns);

    bool plain_;
    std::vector<size_t> widths_;  // of the rows on the screen
    size_t cursor_row_ = 0, cursor_column_ = 0;
};

}  // namespace sluice
