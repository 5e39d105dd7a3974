#include "tools/terminal/line_reader.h"

#include <histedit.h>

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "io/text.h"
#include "tools/terminal/key_input.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr int history_lines = 1000;
constexpr size_t paste_inline_max = 200;

class PlainReader : public LineReader {
 public:
    Line read(const char* prompt) override {
        std::fputs(prompt, stderr);
        std::fflush(stderr);
        std::string text;
        while (true) {
            int next = input_.byte();
            if (next == '\n') return {Event::line, std::move(text)};
            if (next >= 0) {
                text += static_cast<char>(next);
            } else if (next == KeyInput::end) {
                return text.empty() ? Line{Event::end, {}} : Line{Event::line, std::move(text)};
            } else if (interrupt_requested()) {
                clear_interrupt();
                return {text.empty() ? Event::interrupt : Event::interrupt_typed, {}};
            }
        }
    }
    void set_idle_work(std::function<bool()> work) override {
        input_.set_idle_work(std::move(work));
    }

 private:
    KeyInput input_{0};
};

class EditReader : public LineReader {
 public:
    explicit EditReader(std::string history_file) : history_file_(std::move(history_file)) {
        // Characters are UTF-8 whatever the environment says; messages and numbers stay in C.
        if (!std::setlocale(LC_CTYPE, "C.UTF-8")) std::setlocale(LC_CTYPE, "");
        edit_ = el_init("sluice", stdin, stderr, stderr);
        history_ = history_init();
        HistEvent event;
        history(history_, &event, H_SETSIZE, history_lines);
        history(history_, &event, H_SETUNIQUE, 1);
        if (!history_file_.empty()) history(history_, &event, H_LOAD, history_file_.c_str());
        el_set(edit_, EL_CLIENTDATA, this);
        el_set(edit_, EL_SIGNAL, 0);
        el_set(edit_, EL_EDITOR, "emacs");
        el_set(edit_, EL_HIST, history, history_);
        el_set(edit_, EL_PROMPT, &EditReader::prompt_of);
        el_set(edit_, EL_GETCFN, &EditReader::next_character);
        el_set(edit_, EL_ADDFN, "sluice-paste", "Insert pasted text", &EditReader::take_paste);
        el_set(edit_, EL_BIND, "\\e[200~", "sluice-paste", nullptr);
        // CR and LF stay what they are while a line is edited, so that a pasted CRLF is one line
        // end.
        el_set(edit_, EL_SETTY, "-d", "-icrnl", "-inlcr", nullptr);
    }
    ~EditReader() override {
        el_end(edit_);
        history_end(history_);
    }

    Line read(const char* prompt) override {
        prompt_ = prompt;
        pastes_.clear();
        interrupted_ = broken_ = false;
        const char* term = std::getenv("TERM");
        mark_pastes(term && std::strcmp(term, "dumb") != 0);
        // Before the prompt is seen, or a key pressed at once would be the line discipline's.
        el_set(edit_, EL_PREP_TERM, 1);
        int count = 0;
        const char* typed = el_gets(edit_, &count);
        mark_pastes(false);
        if (interrupted_) {
            std::fputc('\n', stderr);
            return {typed_something_ ? Event::interrupt_typed : Event::interrupt, {}};
        }
        if (!typed || count <= 0) return {Event::end, {}};
        std::string text(typed, static_cast<size_t>(count));
        if (!text.empty() && text.back() == '\n') text.pop_back();
        if (broken_) text = bytes_restored(text);
        return {Event::line, with_pastes(std::move(text))};
    }

    void remember(const std::string& line) override {
        if (line.empty() || line.find('\n') != std::string::npos) return;
        HistEvent event;
        history(history_, &event, H_ENTER, line.c_str());
        if (!history_file_.empty()) history(history_, &event, H_SAVE, history_file_.c_str());
    }
    void set_idle_work(std::function<bool()> work) override {
        input_.set_idle_work(std::move(work));
    }

 private:
    struct Paste {
        std::string mark, text;
    };

    static EditReader* self(EditLine* edit) {
        void* data = nullptr;
        el_get(edit, EL_CLIENTDATA, &data);
        return static_cast<EditReader*>(data);
    }

    static char* prompt_of(EditLine* edit) { return self(edit)->prompt_.data(); }

    // libedit asks for one character; 1: got one, 0: end of input, -1: give up this line.
    static int next_character(EditLine* edit, wchar_t* out) {
        EditReader* reader = self(edit);
        while (true) {
            int next = reader->input_.character();
            if (next >= 0) {
                reader->broken_ = reader->broken_ || next >= KeyInput::stand_in;
                *out = static_cast<wchar_t>(next);
                return 1;
            }
            if (next == KeyInput::end) return 0;
            if (take_terminal_changed()) reader->redraw();
            if (interrupt_requested()) {
                clear_interrupt();
                const LineInfo* line = el_line(edit);
                reader->typed_something_ = line->lastchar != line->buffer;
                reader->interrupted_ = true;
                return -1;
            }
        }
    }

    // After a resize, or after a shell had the terminal in between.
    void redraw() {
        el_resize(edit_);
        el_set(edit_, EL_PREP_TERM, 0);
        el_set(edit_, EL_PREP_TERM, 1);
        el_set(edit_, EL_REFRESH);
    }

    static unsigned char take_paste(EditLine* edit, int) {
        EditReader* reader = self(edit);
        std::string text = reader->input_.paste();
        bool plain = text.size() <= paste_inline_max && visible(text) == text &&
                     text.find_first_of("\n\t") == std::string::npos;
        if (plain && (text.empty() || el_insertstr(edit, text.c_str()) == 0)) return CC_REFRESH;
        auto lines = 1 + std::count(text.begin(), text.end(), '\n');
        std::string mark = cat("[pasted ", reader->pastes_.size() + 1, ": ", lines,
                               lines == 1 ? " line, " : " lines, ", text.size(), " bytes]");
        el_insertstr(edit, mark.c_str());
        reader->pastes_.push_back({std::move(mark), std::move(text)});
        return CC_REFRESH;
    }

    std::string with_pastes(std::string line) const {
        for (const auto& paste : pastes_) {
            size_t at = line.find(paste.mark);
            if (at != std::string::npos) line.replace(at, paste.mark.size(), paste.text);
        }
        return line;
    }

    std::string history_file_, prompt_;
    EditLine* edit_;
    History* history_;
    KeyInput input_{0};
    std::vector<Paste> pastes_;
    bool interrupted_ = false, typed_something_ = false;
    bool broken_ = false;  // the line is not valid UTF-8
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const Terminal& terminal,
                                             const std::string& history_file) {
    if (terminal.stdin_tty && terminal.stderr_tty)
        return std::make_unique<EditReader>(history_file);
    return std::make_unique<PlainReader>();
}

}  // namespace sluice
