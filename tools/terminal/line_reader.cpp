#include "tools/terminal/line_reader.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "io/text.h"
#include "tools/terminal/edit_line.h"
#include "tools/terminal/history.h"
#include "tools/terminal/key_reader.h"
#include "tools/terminal/line_view.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

class PlainReader : public LineReader {
 public:
    Line read(const char* prompt, const std::string&) override {
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

bool plain_terminal() {
    const char* term = std::getenv("TERM");
    return !term || !term[0] || std::strcmp(term, "dumb") == 0;
}

class EditReader : public LineReader {
 public:
    EditReader(int screen, std::string history_file)
        : screen_(screen), history_(std::move(history_file)), view_(plain_terminal()) {
        take_keys(screen_, !plain_terminal());
    }
    ~EditReader() override { give_keys_back(); }

    Line read(const char* prompt, const std::string& text) override {
        prompt_ = prompt;
        line_ = EditedLine();
        line_.assign(text);
        entry_ = history_.size();
        view_.begin();
        (void)take_terminal_changed();
        draw();
        while (true) {
            const KeyPress press =
                held_.key != Key::nothing ? std::exchange(held_, {}) : keys_.next();
            if (interrupt_requested()) {
                clear_interrupt();
                held_ = press;  // typed behind Ctrl-C
                return leave(line_.empty() ? Event::interrupt : Event::interrupt_typed);
            }
            if (press.key == Key::interrupt)
                return leave(line_.empty() ? Event::interrupt : Event::interrupt_typed);
            const bool ends = press.key == Key::leave_or_erase && line_.empty();
            if (press.key == Key::end || ends) return leave(Event::end);
            if (press.key == Key::enter) {
                Line out{Event::line, line_.text(), line_.typed()};
                while (line_.line_down()) continue;
                line_.line_end();
                draw();
                (void)leave(Event::line);
                return out;
            }
            handle(press);
            const bool changed = take_terminal_changed() || press.key != Key::nothing;
            if (changed || stale_) stale_ = true;
            if (stale_ && !input_.waiting()) draw();
        }
    }

    void remember(const std::string& line) override { history_.add(line); }
    void set_completer(Completer completer) override { completer_ = std::move(completer); }
    void set_idle_work(std::function<bool()> work) override {
        input_.set_idle_work(std::move(work));
    }

 private:
    Line leave(Event event) {
        const bool ends = event == Event::end;
        put(ends ? std::string() : view_.finish());
        return {event, {}};
    }

    void handle(const KeyPress& press) {
        switch (press.key) {
            case Key::text:
                return line_.insert(press.text);
            case Key::paste:
                return line_.insert_paste(press.text);
            case Key::new_line:
                return line_.insert("\n");
            case Key::tab:
                return complete();
            case Key::up:
                return line_.line_up() ? void() : recall(entry_ - 1);
            case Key::down:
                return line_.line_down() ? void() : recall(entry_ + 1);
            case Key::clear_screen:
                put(plain_terminal() ? "" : "\x1b[H\x1b[2J");
                return view_.begin();
            default:
                return edit(press.key);
        }
    }

    void edit(Key key) {
        static constexpr std::pair<Key, void (EditedLine::*)()> edits[] = {
            {Key::left, &EditedLine::left},
            {Key::right, &EditedLine::right},
            {Key::word_left, &EditedLine::word_left},
            {Key::word_right, &EditedLine::word_right},
            {Key::line_start, &EditedLine::line_start},
            {Key::line_end, &EditedLine::line_end},
            {Key::erase_left, &EditedLine::erase_left},
            {Key::erase_right, &EditedLine::erase_right},
            {Key::leave_or_erase, &EditedLine::erase_right},
            {Key::erase_word_left, &EditedLine::erase_word_left},
            {Key::erase_word_right, &EditedLine::erase_word_right},
            {Key::erase_to_line_start, &EditedLine::erase_to_line_start},
            {Key::erase_to_line_end, &EditedLine::erase_to_line_end},
            {Key::put_back, &EditedLine::put_back},
            {Key::swap, &EditedLine::swap_units}};
        for (const auto& [one, edit] : edits) {
            if (one == key) (line_.*edit)();
        }
    }

    // An entry of history; behind the last one, what was being typed.
    void recall(size_t entry) {
        if (entry > history_.size()) return;  // also before the first one
        if (entry_ == history_.size()) draft_ = line_;
        entry_ = entry;
        if (entry == history_.size()) {
            line_ = draft_;
        } else {
            line_.assign(history_.at(entry));
        }
    }

    void complete() {
        if (!completer_) return;
        const std::string before = line_.text_before_cursor();
        const std::vector<std::string> found = completer_(before);
        if (found.empty()) return;
        std::string common = found.front();
        for (const std::string& one : found) {
            const auto [end, other] = std::ranges::mismatch(common, one);
            common.erase(end, common.end());
        }
        if (common.size() > before.size()) {
            line_.insert(std::string_view(common).substr(before.size()));
        } else if (found.size() > 1) {
            std::string all;
            for (const std::string& one : found) all += cat(visible(one), "  ");
            put(view_.finish() + all + "\r\n");
        }
    }

    void draw() {
        stale_ = false;
        put(view_.draw(prompt_, line_, screen_size(screen_)));
    }

    void put(std::string_view text) const {
        while (!text.empty()) {
            const ssize_t count = ::write(screen_, text.data(), text.size());
            if (count < 0 && errno != EINTR) return;
            if (count > 0) text.remove_prefix(static_cast<size_t>(count));
        }
    }

    int screen_;
    std::string prompt_;
    KeyInput input_{0};
    KeyReader keys_{input_};
    History history_;
    LineView view_;
    EditedLine line_, draft_;
    Completer completer_;
    KeyPress held_;  // comes next
    size_t entry_ = 0;
    bool stale_ = false;  // what is drawn is not the line
};

}  // namespace

std::unique_ptr<LineReader> make_line_reader(const Terminal& terminal,
                                             const std::string& history_file) {
    const int screen = line_screen(terminal);
    if (screen >= 0) return std::make_unique<EditReader>(screen, history_file);
    return std::make_unique<PlainReader>();
}

}  // namespace sluice
