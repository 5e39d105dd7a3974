// The keys of a terminal from its bytes: the forms that xterm, rxvt, tmux and the consoles send.
// Sequences that mean nothing here (function keys, mouse reports, replies) are taken whole.
#pragma once

#include <string>

#include "tools/terminal/key_input.h"

namespace sluice {

enum class Key {
    nothing,  // no key yet, or one that means nothing
    end,      // of input
    text,
    paste,
    enter,
    new_line,
    tab,
    left,
    right,
    up,
    down,
    word_left,
    word_right,
    line_start,
    line_end,
    erase_left,
    erase_right,
    erase_word_left,
    erase_word_right,
    erase_to_line_start,
    erase_to_line_end,
    put_back,
    swap,
    clear_screen,
    leave_or_erase,  // Ctrl-D
    interrupt,       // Ctrl-C where it is no signal
};

struct KeyPress {
    Key key = Key::nothing;
    std::string text = {};  // of text and paste
};

class KeyReader {
 public:
    explicit KeyReader(KeyInput& input) : input_(input) {}
    KeyPress next();

 private:
    int byte_of_sequence();
    KeyPress escape();
    KeyPress control_sequence();
    KeyPress single_shift();
    KeyPress alt(int byte);
    void skip_string();

    KeyInput& input_;
};

}  // namespace sluice
