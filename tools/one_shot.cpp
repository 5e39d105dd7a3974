#include "tools/one_shot.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tools/answer/messages.h"
#include "tools/answer/model_run.h"
#include "tools/answer/session_file.h"
#include "tools/client/open_answerer.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/show.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

// Writes the pieces of the answer as they come, or the whole of it at the end.
class OnceSink {
 public:
    OnceSink(const Options& options, const Terminal& terminal, Output& output)
        : whole_(options.no_stream || options.json),
          tty_(terminal.stdout_tty),
          output_(output),
          thoughts_(terminal, thoughts_shown(options, terminal)) {}

    bool take(const AnswerStream::Piece& piece) {
        thoughts_.show(piece.reasoning);
        if (output_.reader_gone()) return false;
        if (whole_ || piece.content.empty()) return true;
        thoughts_.end();
        return write(piece.content);
    }
    void finish(const std::string& text) {
        thoughts_.end();
        const char* end = text.empty() || text.back() != '\n' ? "\n" : "";
        if (whole_) return void(write(text + end));
        if (*end) write(end);
    }
    bool write(std::string_view text) {
        if (error_) return false;
        auto done = output_.write(tty_ ? visible(text) : std::string(text));
        if (!done) error_ = done.error();
        return done.has_value() && !output_.reader_gone();
    }
    const std::optional<Error>& error() const { return error_; }

 private:
    static bool thoughts_shown(const Options& options, const Terminal& terminal) {
        return options.show_reasoning ||
               (terminal.stdout_tty && terminal.stderr_tty && !options.quiet);
    }
    bool whole_, tty_;
    Output& output_;
    ThoughtStream thoughts_;
    std::optional<Error> error_;
};

int outcome(const Answer& answer, const OnceSink& sink, Output& output) {
    if (end_requested()) return report_error({Code::interrupted, {}});  // whatever else failed
    if (sink.error()) return report_error(*sink.error());
    if (output.reader_gone()) return exit_reader_gone;
    if (answer.error) return report_error(*answer.error);
    if (answer.finish == Finish::interrupted) {
        return report_error({Code::interrupted, "interrupted"});
    }
    return exit_ok;
}

void report(const Answer& answer, const RunFacts& facts, const Options& options, bool failed) {
    if (options.quiet) {
        if (options.show_timings) std::fprintf(stderr, "%s\n", speed_line(answer, facts).c_str());
        return;
    }
    if (!facts.server.empty()) std::fprintf(stderr, "answered by %s\n", server_text(facts).c_str());
    if (options.stats) std::fputs(stats_block(answer, facts).c_str(), stderr);
    const std::string cut = cut_reasoning_text(answer);
    if (answer.unclosed && cut.empty())
        std::fputs("sluice: the reasoning did not end; all of it is shown as the answer\n", stderr);
    if (!cut.empty()) std::fprintf(stderr, "sluice: %s\n", cut.c_str());
    if (fills_context(answer, facts)) {
        std::fprintf(stderr,
                     "sluice: the context of %d tokens is full, so the answer is cut off; %s\n",
                     facts.context, context_advice(facts).c_str());
    }
    if (answer.finish == Finish::length && !options.format.empty() && cut.empty() &&
        !fills_context(answer, facts))
        std::fputs("sluice: -n ended the answer before its JSON was complete; raise -n\n", stderr);
    if (answer.finish == Finish::loop)
        std::fputs("sluice: stopped by --loop-guard: the answer repeats itself\n", stderr);
    if (failed && !options.show_timings) return;  // the next line says why
    std::fprintf(stderr, "%s\n", speed_line(answer, facts).c_str());
}

void set_system(const std::string& system, std::vector<Message>& messages) {
    if (system.empty()) return;
    const bool has_one = !messages.empty() && messages.front().role == Role::system;
    if (!has_one) messages.insert(messages.begin(), Message{Role::system, {}});
    messages.front().content = system;
}

// The conversation to answer: that of --messages, or what --session has and the prompt; with the
// system message, if one is given.
Result<std::vector<Message>> conversation(const Options& options, const Terminal& terminal,
                                          const std::optional<SessionFile>& session) {
    auto system = system_message(options);
    if (!system) return tl::unexpected(system.error());
    std::vector<Message> messages;
    if (!options.messages_file.empty()) {
        auto given = messages_of(options);
        if (!given) return given;
        messages = std::move(*given);
    } else {
        auto prompt = user_prompt(options, terminal);
        if (!prompt) return tl::unexpected(prompt.error());
        if (session) messages = session->messages();
        messages.push_back({Role::user, *prompt});
    }
    set_system(*system, messages);
    return messages;
}

// As in a chat, whose later answers do not repeat the random numbers of the first.
uint64_t answers_in(const std::vector<Message>& messages) {
    return static_cast<uint64_t>(std::ranges::count(messages, Role::assistant, &Message::role));
}

// Adds a complete answer to the file. One that was stopped, or failed, is asked for again.
void keep(Answer& answer, std::vector<Message>& messages, SessionFile& session) {
    if (answer.error || answer.finish == Finish::interrupted) return;
    messages.push_back({Role::assistant, answer.text, answer.reasoning});
    if (auto saved = session.save(messages); !saved) {
        answer.finish = Finish::error;
        answer.error = saved.error();
    }
}

}  // namespace

int run_once(const Options& given, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    const Options options = given.session_file.empty() ? given : with_prompt_cache(given);
    std::optional<SessionFile> session;
    if (!options.session_file.empty()) {
        auto file = SessionFile::open(options.session_file);
        if (!file) return report_error(file.error());
        session.emplace(std::move(*file));
    }
    auto messages = conversation(options, terminal, session);
    if (!messages) return report_error(messages.error());
    auto opened = open_answerer(
        options, terminal,
        {.report_placement = options.verbose || options.stats, .predict_must_fit = true});
    if (!opened) return report_error(opened.error());
    Answerer& answerer = **opened;

    Output output(1);
    OnceSink sink(options, terminal, output);
    auto answer =
        answerer.answer(*messages, answers_in(*messages),
                        [&](const AnswerStream::Piece& piece) { return sink.take(piece); });
    if (!answer) return report_error(answer.error());
    if (auto kept = answerer.finish(); !kept && !answer->error) {
        answer->finish = Finish::error;
        answer->error = kept.error();
    }
    if (session) keep(*answer, *messages, *session);
    if (options.json)
        sink.write(answer_json(*answer, answerer.facts()) + "\n");
    else
        sink.finish(answer->text);
    const bool failed = answer->error || sink.error();
    if (!output.reader_gone()) report(*answer, answerer.facts(), options, failed);
    return outcome(*answer, sink, output);
}

}  // namespace sluice
