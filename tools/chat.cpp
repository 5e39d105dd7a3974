#include "tools/chat.h"

#include <cstdio>
#include <memory>
#include <utility>

#include "io/output_file.h"
#include "io/text.h"
#include "tools/answer/messages.h"
#include "tools/answer/model_run.h"
#include "tools/client/open_answerer.h"
#include "tools/options/option_table.h"
#include "tools/options/user_text.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/line_reader.h"
#include "tools/terminal/output.h"
#include "tools/terminal/show.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr const char* commands_help =
    "/retry           answer the last message again\n"
    "/undo            take back the last message and its answer\n"
    "/edit            take them back and edit the message\n"
    "/file FILE       put the text of a file on the line\n"
    "/clear           clear the conversation\n"
    "/save FILE       save the conversation as JSON\n"
    "/load FILE       continue a saved conversation\n"
    "/show            show the model, where it is in memory, and the conversation's size\n"
    "/stats           show statistics of the last answer\n"
    "/bye             quit (also Ctrl-D)\n"
    "Alt-Enter        begin another line of the message; \"\"\" begins and ends several\n"
    "Tab              complete a command, an option or a file name\n"
    "Ctrl-C           stop an answer\n"
    "/set NAME VALUE  change an option (in quotes: spaces and \\n; without a value, stop and\n"
    "                 system-prompt are cleared); NAME is one of:\n";
constexpr std::string_view commands[] = {"/bye",   "/clear", "/edit", "/file", "/help",  "/load",
                                         "/retry", "/save",  "/set",  "/show", "/stats", "/undo"};

// With the names of the options that /set changes, in rows of six.
std::string help_text() {
    std::string out = commands_help;
    size_t count = 0;
    for (const OptionSpec& spec : option_table()) {
        if (!spec.is(settable)) continue;
        out += cat(count == 0       ? "                 "
                   : count % 6 == 0 ? ",\n                 "
                                    : ", ",
                   spec.name());
        ++count;
    }
    return out + '\n';
}

void say(std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void show_block(std::string_view text) {
    say(wrapped(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text,
                screen_size(2).columns));
}

// "\"a b\"" -> "a b"; in quotes \n, \t, \" and \\ are what they are in C.
std::string unquoted(const std::string& value) {
    if (value.size() < 2 || value.front() != '"' || value.back() != '"') return value;
    std::string out;
    for (size_t i = 1; i + 1 < value.size(); ++i) {
        const bool escape = value[i] == '\\' && i + 2 < value.size();
        const char c = escape ? value[++i] : value[i];
        out += escape && c == 'n' ? '\n' : escape && c == 't' ? '\t' : c;
    }
    return out;
}

// What Tab may make of the text before the cursor.
std::vector<std::string> completions(const std::string& before) {
    std::vector<std::string> out;
    const size_t space = before.find(' ');
    if (before.empty() || before[0] != '/') return out;
    if (space == std::string::npos) {
        for (std::string_view name : commands) {
            if (name.starts_with(before)) out.push_back(cat(name, name == "/set" ? " " : ""));
        }
        return out;
    }
    const std::string head = before.substr(0, space + 1), rest = before.substr(space + 1);
    if (head == "/set ") {
        for (const OptionSpec& spec : option_table()) {
            if (spec.is(settable) && spec.name().starts_with(rest))
                out.push_back(cat(head, spec.name(), " "));
        }
    } else if (head == "/load " || head == "/save " || head == "/file ") {
        for (const std::string& path : paths_beginning(rest)) out.push_back(head + path);
    }
    return out;
}

// "/set temp 0.5" -> {"/set", "temp 0.5"}.
std::pair<std::string, std::string> split_word(std::string line) {
    line.erase(line.find_last_not_of(" \t") + 1);
    size_t space = line.find(' ');
    if (space == std::string::npos) return {line, {}};
    size_t rest = line.find_first_not_of(' ', space);
    return {line.substr(0, space), rest == std::string::npos ? "" : line.substr(rest)};
}

class Chat {
 public:
    Chat(const Options& options, const Terminal& terminal, std::unique_ptr<Answerer> answerer,
         const std::string& system)
        : options_(options),
          terminal_(terminal),
          answerer_(std::move(answerer)),
          output_(1),
          reader_(make_line_reader(terminal, history_file())) {
        options_.system_prompt = system;
        reader_->set_completer(completions);
        reader_->set_idle_work([this] { return answerer_->idle_work(); });
        clear();
    }

    // Returns the exit code. Recorded routes are complete then, or their error is reported.
    int run() {
        const int code = converse();
        auto kept = answerer_->finish();
        if (kept) return code;
        const int failed = report_error(kept.error());
        return code == exit_ok ? failed : code;
    }

 private:
    int converse() {
        if (!options_.quiet) say(opening());
        bool asked_to_leave = false;
        while (!leave_) {
            auto [event, text, typed] = next_message();
            if (end_requested()) return report_error({Code::interrupted, {}});
            if (event == LineReader::Event::end) {
                std::fputc('\n', stderr);
                return exit_ok;
            }
            if (event == LineReader::Event::interrupt) {
                if (asked_to_leave) return exit_interrupted;
                say("Press Ctrl-C again to quit (or /bye, Ctrl-D).");
                asked_to_leave = true;
                continue;
            }
            asked_to_leave = false;
            if (event == LineReader::Event::interrupt_typed || text.empty()) continue;
            if (typed && text[0] == '/')
                command(text);
            else
                answer(text);
            if (end_requested()) return report_error({Code::interrupted, {}});
            if (output_.reader_gone()) return exit_reader_gone;
        }
        return failure_;
    }

    static std::string history_file() {
        std::string folder = state_folder();
        return folder.empty() ? folder : folder + "/history";
    }

    // "dsv41-tiny · cpu · context 8192 · /help"
    std::string opening() const {
        const RunFacts& facts = answerer_->facts();
        std::string out = printable(facts.model);
        if (!facts.device.empty()) out += cat(" · ", facts.device);
        if (facts.context > 0) out += cat(" · context ", facts.context);
        return wrapped(out + " · Type a message, or /help.", screen_size(2).columns);
    }

    LineReader::Line next_message() {
        auto line = reader_->read("> ", std::exchange(draft_, {}));
        if (line.event != LineReader::Event::line) return line;
        const bool block = line.typed && line.text.starts_with("\"\"\"");
        if (!block) {
            if (check_utf8("", line.text)) reader_->remember(line.text);
            return line;
        }
        std::string text = line.text.substr(3);
        while (text.size() < 3 || text.compare(text.size() - 3, 3, "\"\"\"") != 0) {
            line = reader_->read(". ");
            if (line.event != LineReader::Event::line) {
                if (line.event == LineReader::Event::interrupt)
                    line.event = LineReader::Event::interrupt_typed;
                return line;
            }
            text += (text.empty() ? "" : "\n") + line.text;
        }
        text.resize(text.size() - 3);
        if (check_utf8("", text)) reader_->remember(text);
        return {LineReader::Event::line, std::move(text), false};
    }

    void clear() {
        messages_.clear();
        if (!options_.system_prompt.empty())
            messages_.push_back({Role::system, options_.system_prompt, {}});
        answerer_->forget();
    }

    void command(const std::string& line) {
        auto [name, rest] = split_word(line);
        if (name == "/help" || name == "/?")
            show_block(help_text());
        else if (name == "/bye" || name == "/exit" || name == "/quit")
            leave_ = true;
        else if (name == "/clear")
            clear(), say("The conversation is cleared.");
        else if (name == "/set")
            set(rest);
        else if (name == "/save")
            save(rest);
        else if (name == "/load")
            load(rest);
        else if (name == "/stats")
            stats();
        else if (name == "/show")
            show();
        else if (name == "/file")
            take_file(rest);
        else if (name == "/retry" || name == "/undo" || name == "/edit")
            take_back(name);
        else
            unknown(line, name);
    }

    // The line stays: it may be a message that begins so.
    void unknown(const std::string& line, const std::string& name) {
        say(cat("unknown command ", printable(name),
                "; /help lists all commands; a message begins with a space"));
        draft_ = line;
    }

    void take_back(const std::string& name) {
        size_t at = messages_.size();
        while (at > 0 && messages_[at - 1].role != Role::user) --at;
        if (at == 0) return say(cat(name, ": no message yet"));
        const std::string text = messages_[at - 1].content;
        messages_.resize(at - 1);
        if (name == "/retry") return answer(text);
        if (name == "/edit") draft_ = text;
        say("The last message and its answer are taken back.");
    }

    void take_file(const std::string& path) {
        if (path.empty()) return say("/file: a file name is missing: /file FILE");
        auto text = read_user_file("/file", home_expanded(path));
        if (!text) return say(text.error().message);
        draft_ = std::move(*text);
    }

    void show() {
        const RunFacts& facts = answerer_->facts();
        std::string out = cat("model     ", printable(facts.model), "\nmode      ", facts.mode,
                              "\nmessages  ", messages_.size());
        if (last_) {
            out += cat("\ncontext   ", last_->prompt_tokens + last_->completion_tokens, " of ",
                       facts.context, " tokens");
        }
        show_block(cat(out, "\n", facts.placement));
    }

    void set(const std::string& rest) {
        auto [name, given] = split_word(rest);
        const OptionSpec* spec = find_option(name);
        if (!spec || !spec->is(settable)) {
            say(spec
                    ? cat("/set: ", printable(name), " is set when sluice starts: --", spec->name())
                    : cat("/set: unknown option ", printable(name)));
            return show_block(help_text());
        }
        Options changed = options_;
        const bool cleared = given.empty() && (name == "stop" || name == "system-prompt");
        const std::string value = unquoted(given);
        const std::vector<std::string> none;
        auto done = spec->set(
            changed,
            {"/set " + name, cleared && name == "stop" ? none : std::vector<std::string>{value}});
        if (!done) return say(done.error().message);
        options_ = std::move(changed);
        answerer_->apply(options_);
        if (name == "system-prompt") set_system();
        say(cleared ? cat(name, " is cleared") : cat(name, " is ", printable(value)));
    }

    void set_system() {
        if (!messages_.empty() && messages_.front().role == Role::system)
            messages_.erase(messages_.begin());
        if (!options_.system_prompt.empty())
            messages_.insert(messages_.begin(), {Role::system, options_.system_prompt, {}});
    }

    void save(const std::string& path) {
        if (path.empty()) return say("/save: a file name is missing: /save FILE");
        auto target = output_file("/save", home_expanded(path), "{\"messages\":");
        if (!target) return say(target.error().message);
        auto done = write_file_whole(*target, messages_json(messages_));
        say(done ? cat("saved ", messages_.size(), " messages to ", printable(path))
                 : done.error().message);
    }

    void load(const std::string& path) {
        if (path.empty()) return say("/load: a file name is missing: /load FILE");
        auto text = read_user_file("/load", home_expanded(path));
        if (!text) return say(text.error().message);
        auto messages = parse_messages(path, *text);
        if (!messages) return say(messages.error().message);
        messages_ = std::move(*messages);
        say(cat("loaded ", messages_.size(), " messages from ", printable(path)));
    }

    void stats() {
        if (!last_) return say("/stats: no answer yet");
        show_block(stats_block(*last_, answerer_->facts()));
    }

    void answer(const std::string& text) {
        if (auto valid = check_utf8("the message was not sent", text); !valid) {
            return say(valid.error().message);
        }
        const size_t before = messages_.size();
        messages_.push_back({Role::user, text, {}});
        auto done = generate_answer();
        if (!done) {
            messages_.pop_back();
            bool stopped = done.error().code == Code::interrupted;
            say(stopped ? "stopped; the message was not sent" : done.error().message);
            if (stopped) draft_ = text;
            if (done.error().code == Code::usage)
                say("The conversation is kept: /save it, /clear it, or send a shorter message.");
            clear_interrupt();
            return;
        }
        clear_interrupt();
        last_ = std::move(*done);
        finish(*last_);
        if (!last_->error) return;
        messages_.resize(before);
        say("This answer is not part of the conversation; Up brings the message back.");
    }

    Result<Answer> generate_answer() {
        ThoughtStream thoughts(terminal_, options_.show_reasoning || !options_.quiet);
        auto out = answerer_->answer(messages_, turns_, [&](const AnswerStream::Piece& piece) {
            thoughts.show(piece.reasoning);
            if (!piece.content.empty()) thoughts.end();
            return write(piece.content);
        });
        thoughts.end();
        return out;
    }

    bool write(std::string_view text) {
        auto done = output_.write(terminal_.stdout_tty ? visible(text) : std::string(text));
        if (!done) {
            failure_ = report_error(done.error());
            leave_ = true;
        }
        return done.has_value() && !output_.reader_gone();
    }

    void finish(const Answer& answer) {
        if (answer.text.empty() || answer.text.back() != '\n') write("\n");
        ++turns_;
        messages_.push_back({Role::assistant, answer.text, answer.reasoning});
        if (answer.error) say(answer.error->message);
        if (answer.finish == Finish::interrupted) say("(stopped)");
        if (answer.finish == Finish::loop) say("(stopped: the answer repeats itself)");
        const std::string cut = cut_reasoning_text(answer);
        if (answer.unclosed && cut.empty())
            say("(the reasoning did not end; all of it is shown as the answer)");
        if (!cut.empty()) say(cat("(", cut, ")"));
        const RunFacts& facts = answerer_->facts();
        if (fills_context(answer, facts)) {
            say(cat("The context of ", facts.context, " tokens is full: /save and /clear, or ",
                    context_advice(facts), '.'));
        }
        if (options_.quiet) return;
        const char* dim = terminal_.color ? "\x1b[2m" : "";
        const char* plain = terminal_.color ? "\x1b[0m" : "";
        std::fprintf(stderr, "%s%s%s\n", dim, speed_line(answer, facts).c_str(), plain);
    }

    Options options_;
    const Terminal& terminal_;
    std::unique_ptr<Answerer> answerer_;
    Output output_;
    std::unique_ptr<LineReader> reader_;
    std::string draft_;  // what stands on the next line already
    std::vector<Message> messages_;
    std::optional<Answer> last_;
    uint64_t turns_ = 0;
    bool leave_ = false;
    int failure_ = exit_ok;
};

}  // namespace

int run_chat(const Options& options, const Terminal& terminal) {
    install_signals(SecondPress::ignored);
    auto system = system_message(options);
    if (!system) return report_error(system.error());
    auto answerer =
        open_answerer(with_prompt_cache(options), terminal, {.report_placement = options.verbose});
    if (!answerer) return report_error(answerer.error());
    const RunFacts& facts = (*answerer)->facts();
    if (!facts.server.empty() && !options.quiet) say(cat("answered by ", server_text(facts)));
    return Chat(options, terminal, std::move(*answerer), *system).run();
}

}  // namespace sluice
