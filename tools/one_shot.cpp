#include "tools/one_shot.h"

#include <cstdio>

#include "tools/answer/model_run.h"
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
        if (whole_) write(text);
        if (text.empty() || text.back() != '\n') write("\n");
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
    if (options.stats) std::fputs(stats_block(answer, facts).c_str(), stderr);
    if (answer.unclosed)
        std::fputs("sluice: the reasoning did not end; all of it is shown as the answer\n", stderr);
    if (fills_context(answer, facts)) {
        std::fprintf(
            stderr,
            "sluice: the context of %d tokens is full, so the answer is cut off; raise -c\n",
            facts.context);
    }
    if (answer.finish == Finish::loop)
        std::fputs("sluice: stopped by --loop-guard: the answer repeats itself\n", stderr);
    if (failed && !options.show_timings) return;  // the next line says why
    std::fprintf(stderr, "%s\n", speed_line(answer, facts).c_str());
}

}  // namespace

int run_once(const Options& options, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    auto prompt = user_prompt(options, terminal);
    if (!prompt) return report_error(prompt.error());
    auto system = system_message(options);
    if (!system) return report_error(system.error());
    auto run = load_model(options, terminal, options.verbose || options.stats);
    if (!run) return report_error(run.error());

    std::vector<Message> messages;
    if (!system->empty()) messages.push_back({Role::system, *system, {}});
    messages.push_back({Role::user, *prompt, {}});
    const Engine& engine = *run->engine;
    auto ids = encode_chat(engine.tokenizer(), messages, run->prompt);
    if (!ids) return report_error(ids.error());
    if (auto room = check_room(ids->size(), options.predict, run->facts.context); !room) {
        return report_error(room.error());
    }

    Output output(1);
    OnceSink sink(options, terminal, output);
    PromptProgress progress(*run->session, terminal.stderr_tty && !options.quiet);
    SessionSource source(*run->session);
    auto answer = generate(source, engine.tokenizer(), run->facts.end_tokens, *ids,
                           generate_options(*run, options), [&](const AnswerStream::Piece& piece) {
                               progress.finish();
                               return sink.take(piece);
                           });
    progress.finish();
    if (!answer) return report_error(answer.error());
    (void)run->session->remember_experts();
    if (auto kept = run->session->keep_routes(); !kept && !answer->error) {
        answer->finish = Finish::error;
        answer->error = kept.error();
    }
    if (options.json)
        sink.write(answer_json(*answer, run->facts) + "\n");
    else
        sink.finish(answer->text);
    const bool failed = answer->error || sink.error();
    if (!output.reader_gone()) report(*answer, run->facts, options, failed);
    return outcome(*answer, sink, output);
}

}  // namespace sluice
