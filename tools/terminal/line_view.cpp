#include "tools/terminal/line_view.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view to_screen_end = "\x1b[J";

std::string moved(size_t count, char direction) {
    return count == 0 ? std::string() : cat("\x1b[", count, direction);
}

}  // namespace

void LineView::begin() {
    widths_.clear();
    cursor_row_ = cursor_column_ = 0;
}

// Rows end before the last column, where terminals differ in what the next character does.
LineView::Rows LineView::rows_of(std::string_view prompt, const EditedLine& line, size_t columns) {
    const size_t room = std::max<size_t>(columns, 4) - 1;
    Rows out;
    std::string row(prompt);
    auto width = static_cast<size_t>(text_width(prompt));
    const auto close = [&] {
        out.text.push_back(row);
        out.widths.push_back(width);
        row.clear();
        width = 0;
    };
    const auto& units = line.units();
    for (size_t i = 0; i <= units.size(); ++i) {
        const size_t needed = i < units.size() ? static_cast<size_t>(units[i].width) : 1;
        const bool wide_mark = needed > room;  // a paste's: cut into rows
        if (width + needed > room && width > 0 && !wide_mark) close();
        if (i == line.cursor()) {
            out.cursor_row = out.text.size();
            out.cursor_column = width;
        }
        if (i == units.size()) break;
        if (units[i].shown == "\n") {
            close();
        } else if (wide_mark) {
            for (char c : units[i].shown) {
                if (width >= room) close();
                row += c;
                ++width;
            }
        } else {
            row += units[i].shown;
            width += needed;
        }
    }
    close();
    return out;
}

std::string LineView::draw(std::string_view prompt, const EditedLine& line, ScreenSize screen) {
    if (plain_) return draw_plain(prompt, line, screen.columns);
    // A terminal that became narrower has broken the rows again.
    const size_t columns = std::max<size_t>(screen.columns, 1);
    size_t above = cursor_column_ / columns;
    for (size_t i = 0; i < cursor_row_; ++i)
        above += std::max<size_t>(1, (widths_[i] + columns - 1) / columns);
    Rows rows = rows_of(prompt, line, columns);
    // Of a text that is higher than the screen, the part around the cursor.
    const size_t most = std::max<size_t>(screen.rows, 2) - 1;
    size_t first = 0;
    if (rows.text.size() > most) {
        first = rows.cursor_row < most ? 0 : rows.cursor_row - most + 1;
        rows.text.resize(first + most);
        rows.widths.resize(first + most);
    }
    std::string out = cat("\r", moved(std::min(above, most), 'A'), to_screen_end);
    for (size_t i = first; i < rows.text.size(); ++i)
        out += cat(i == first ? "" : "\r\n", rows.text[i]);
    out += cat("\r", moved(rows.text.size() - 1 - rows.cursor_row, 'A'),
               moved(rows.cursor_column, 'C'));
    widths_.assign(rows.widths.begin() + static_cast<long>(first), rows.widths.end());
    cursor_row_ = rows.cursor_row - first;
    cursor_column_ = rows.cursor_column;
    return out;
}

std::string LineView::draw_plain(std::string_view prompt, const EditedLine& line, size_t columns) {
    const size_t room = std::max<size_t>(columns, 8) - 1;
    const auto start = static_cast<size_t>(text_width(prompt));
    const auto& units = line.units();
    const auto width_of = [&](const Unit& unit) {
        return unit.shown == "\n" ? size_t{1} : static_cast<size_t>(unit.width);
    };
    // The first unit shown is the earliest from which the cursor is still in the row.
    size_t first = line.cursor(), used = start + 1;
    while (first > 0 && used + width_of(units[first - 1]) <= room) used += width_of(units[--first]);
    std::string before(prompt), row(prompt);
    size_t width = start;
    for (size_t i = first; i < units.size() && width + width_of(units[i]) <= room; ++i) {
        row += units[i].shown == "\n" ? "|" : units[i].shown;
        width += width_of(units[i]);
        if (i + 1 == line.cursor()) before = row;
    }
    const size_t drawn = widths_.empty() ? 0 : widths_.front();
    if (drawn > width) row.append(drawn - width, ' ');
    widths_ = {width};
    cursor_row_ = 0;
    return cat("\r", row, "\r", before);
}

std::string LineView::finish() {
    const size_t below = widths_.empty() ? 0 : widths_.size() - 1 - cursor_row_;
    begin();
    return cat(plain_ ? std::string() : moved(below, 'B'), "\r\n");
}

}  // namespace sluice
