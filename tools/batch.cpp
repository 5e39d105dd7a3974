#include "tools/batch.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>

#include "io/clock.h"
#include "io/format.h"
#include "io/text.h"
#include "tools/answer/cached_source.h"
#include "tools/answer/model_run.h"
#include "tools/answer/report.h"
#include "tools/batch/batch_input.h"
#include "tools/batch/batch_lines.h"
#include "tools/batch/batch_output.h"
#include "tools/options/user_text.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/show.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

// Where results go: the file of -o, or standard output.
class Results {
 public:
    static Result<Results> open(const Options& options) {
        Results out;
        if (options.output.empty()) return out;
        auto file = BatchOutput::open("-o", options.output);
        if (!file) return tl::unexpected(file.error());
        out.file_.emplace(std::move(*file));
        return out;
    }
    bool answered(const std::string& id) const { return file_ && file_->answered().contains(id); }
    Result<void> add(std::string_view line) {
        if (file_) return file_->add(line);
        auto done = output_.write(line);
        if (done && output_.reader_gone()) return fail(Code::interrupted, "");
        return done;
    }
    bool reader_gone() { return !file_ && output_.reader_gone(); }

 private:
    std::optional<BatchOutput> file_;
    Output output_{1};
};

struct Counts {
    uint64_t all = 0;  // lines to run
    uint64_t answered = 0, failed = 0, skipped = 0;
    uint64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
    uint64_t done() const { return answered + failed; }
};

class Batch {
 public:
    Batch(const Options& options, const Terminal& terminal, ModelRun& run, Results& results)
        : options_(options),
          run_(run),
          results_(results),
          source_(*run.session, *run.prompts, run.engine->tokenizer(), *run.chat->tokens),
          status_(terminal.stderr_tty && !options.quiet),
          log_(!terminal.stderr_tty && !options.quiet) {}

    // All lines of a file; those with a common beginning one after another.
    Result<void> run_file(const std::string& path) {
        auto lines = read_lines(path);
        if (!lines) return tl::unexpected(lines.error());
        counts_.all = lines->size();
        const std::vector<size_t> order = batch_order(*lines);
        for (size_t i = 0; i < order.size(); ++i) {
            const BatchLine& line = (*lines)[order[i]];
            const BatchLine* next = i + 1 < order.size() ? &(*lines)[order[i + 1]] : nullptr;
            source_.also_at(next ? static_cast<int32_t>(common_prefix(line, *next)) : -1);
            if (auto done = answer(line); !done) return done;
        }
        return {};
    }

    // Each line of standard input as it comes.
    Result<void> run_stream() {
        BatchInput input(0);
        std::set<std::string> seen;
        while (true) {
            auto text = input.next();
            if (!text) return tl::unexpected(text.error());
            if (!*text) return {};
            BatchLine line = read_batch_line(**text, input.number(), run_, defaults());
            ++counts_.all;
            if (!line.id.empty() && !seen.insert(line.id).second) {
                line.error = Error{Code::usage, "custom_id: an earlier line has the same"};
            }
            if (results_.answered(line.id)) {
                ++counts_.skipped;
                --counts_.all;
                continue;
            }
            if (auto done = answer(line); !done) return done;
        }
    }

    const Counts& counts() const { return counts_; }
    void finish_status() { status_.erase(); }

 private:
    AnswerRequest defaults() const { return default_request(run_, options_); }

    // The lines to run. An id that comes twice could not be told apart in the output.
    Result<std::vector<BatchLine>> read_lines(const std::string& path) {
        auto input = BatchInput::open(path);
        if (!input) return tl::unexpected(input.error());
        std::vector<BatchLine> lines;
        std::map<std::string, uint64_t> seen;
        while (true) {
            auto text = input->next();
            if (!text) return tl::unexpected(text.error());
            if (!*text) break;
            BatchLine line = read_batch_line(**text, input->number(), run_, defaults());
            if (!line.id.empty()) {
                const auto [at, first] = seen.emplace(line.id, line.number);
                if (!first) {
                    return fail(Code::usage, cat(printable(path), ": lines ", at->second, " and ",
                                                 line.number, " have the same custom_id \"",
                                                 printable(line.id), "\"; give each its own"));
                }
            }
            if (results_.answered(line.id)) {
                ++counts_.skipped;
            } else {
                lines.push_back(std::move(line));
            }
        }
        return lines;
    }

    // Errors are those that end the batch: an interruption, the output, the drive.
    Result<void> answer(const BatchLine& line) {
        show_progress();
        if (line.error) return failed(line, *line.error);
        GenerateOptions wanted = line.prepared.options;
        wanted.cancel = cancel_flag();
        run_.session->clear_stats();
        auto answer =
            generate(source_, run_.engine->tokenizer(), run_.facts.end_tokens, line.prepared.ids,
                     wanted, [&](const AnswerStream::Piece&) { return !results_.reader_gone(); });
        if (!answer) return ended_by(line, answer.error());
        if (answer->finish == Finish::interrupted) return fail(Code::interrupted, "interrupted");
        if (answer->error) return ended_by(line, *answer->error);
        ++counts_.answered;
        counts_.prompt_tokens += answer->prompt_tokens;
        counts_.cached_tokens += answer->cached_tokens;
        counts_.tokens += answer->completion_tokens;
        const ReplyFacts facts = {.id = line.number,
                                  .created = std::time(nullptr),
                                  .model = run_.facts.model,
                                  .tokenizer = &run_.engine->tokenizer(),
                                  .prompt_tokens = answer->prompt_tokens};
        return results_.add(
            answered_line(line, line.dialect->writer(line.request, facts)->whole(*answer)));
    }

    // A request's fault is its own; anything else would meet the lines after it as well.
    Result<void> ended_by(const BatchLine& line, const Error& error) {
        if (error.code == Code::usage || error.code == Code::numerical) return failed(line, error);
        return tl::unexpected(error);
    }

    Result<void> failed(const BatchLine& line, const Error& error) {
        ++counts_.failed;
        return results_.add(failed_line(line, error));
    }

    // On a terminal a status line; elsewhere a line every ten seconds.
    void show_progress() {
        const std::string text = progress_text();
        status_.show(text);
        if (!log_ || seconds_since(logged_) < 10) return;
        logged_ = Clock::now();
        std::fprintf(stderr, "%s\n", text.c_str());
    }
    std::string progress_text() const {
        std::string text = cat("batch: ", counts_.done(), " of ", counts_.all, " lines");
        if (counts_.failed > 0) text += cat(", ", counts_.failed, " failed");
        if (counts_.done() == 0 || counts_.all <= counts_.done()) return text;
        const double each = seconds_since(start_) / static_cast<double>(counts_.done());
        return text + cat(", about ",
                          duration_text(each * static_cast<double>(counts_.all - counts_.done())),
                          " left");
    }

    const Options& options_;
    ModelRun& run_;
    Results& results_;
    CachedSource source_;
    StatusLine status_;
    bool log_;
    Clock::time_point start_ = Clock::now(), logged_ = start_;
    Counts counts_;
};

void report(const Counts& counts, double seconds) {
    std::string text = cat("batch: ", counts.answered, " answered");
    if (counts.failed > 0) text += cat(", ", counts.failed, " failed");
    if (counts.skipped > 0) text += cat(", ", counts.skipped, " were answered before");
    text +=
        formatted("; {} prompt tokens ({} not read again), {} tokens in {}", counts.prompt_tokens,
                  counts.cached_tokens, counts.tokens, duration_text(seconds));
    std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace

int run_batch(const Options& given, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    const Options options = with_prompt_cache(given);
    auto results = Results::open(options);
    if (!results) return report_error(results.error());
    auto run = load_model(options, terminal, options.verbose);
    if (!run) return report_error(run.error());
    const auto start = Clock::now();
    Batch batch(options, terminal, *run, *results);
    auto done = options.batch_file.empty() || options.batch_file == "-"
                    ? batch.run_stream()
                    : batch.run_file(options.batch_file);
    batch.finish_status();
    (void)run->session->remember_experts();
    if (!options.quiet) report(batch.counts(), seconds_since(start));
    if (results->reader_gone()) return exit_reader_gone;
    if (!done) return report_error(done.error());
    return batch.counts().failed == 0 ? exit_ok : exit_mismatch;
}

}  // namespace sluice
