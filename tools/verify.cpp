#include "tools/verify.h"

#include <cstdio>
#include <filesystem>

#include "engine/trace/trace.h"
#include "io/text.h"
#include "tools/answer/model_run.h"
#include "tools/options/numbers.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

struct Tally {
    size_t compared = 0, differing = 0, skipped = 0, ties = 0, steps = 0;
    double rel_max = 0;
};

std::string report_text(const TraceReport& report) {
    size_t ties = 0;
    for (const auto& flip : report.flips) ties += flip.tie;
    std::string out = cat(report.pass ? "ok    " : "DIFF  ", report.name, ": ", report.steps,
                          " steps, ", report.steps - report.flips.size(), " tokens equal, ", ties,
                          " ties; logits relative error median ", number_text(report.rel_median),
                          ", max ", number_text(report.rel_max));
    if (report.rel_max_position >= 0) out += cat(" at position ", report.rel_max_position);
    if (!report.pass) out += cat("; ", report.failure);
    out += '\n';
    for (const auto& flip : report.flips) {
        out += cat("      position ", flip.position, ": expected ", flip.expected, " (",
                   number_text(flip.expected_logit), "), got ", flip.got, " (",
                   number_text(flip.got_logit), "), recorded margin ", number_text(flip.margin),
                   flip.tie ? ", a tie\n" : "\n");
    }
    return out;
}

// A trace file; one found in a folder may belong to another model, one given by name is compared.
struct Candidate {
    std::filesystem::path path;
    bool named;
};

Result<std::vector<Candidate>> candidates(const std::vector<std::string>& paths) {
    std::vector<Candidate> out;
    for (const auto& path : paths) {
        std::error_code error;
        bool folder = std::filesystem::is_directory(path, error);
        auto found = find_traces({path});
        if (!found) return tl::unexpected(found.error());
        for (auto& file : *found) out.push_back({std::move(file), !folder});
    }
    return out;
}

std::string summary(const Tally& tally) {
    return cat(tally.differing == 0 ? "verified: " : "DIFFERENT: ", tally.compared, " traces, ",
               tally.differing, " different, ", tally.steps, " steps, ", tally.ties,
               " ties, logits relative error at most ", number_text(tally.rel_max), "; ",
               tally.skipped, " of other models or index keys skipped\n");
}

// A trace to compare; nullopt: one of another model, skipped with a note on stderr.
Result<std::optional<Trace>> load_trace(const Candidate& candidate, const ModelRun& run,
                                        const Options& options) {
    auto trace = read_trace(candidate.path);
    if (!trace) return tl::unexpected(trace.error());
    auto skip = [&](const std::string& why) {
        if (!options.quiet)
            std::fprintf(stderr, "sluice: skipped %s: %s\n", candidate.path.c_str(), why.c_str());
        return std::optional<Trace>();
    };
    bool other_model = !trace->model.empty() && trace->model != run.facts.model;
    bool other_keys = trace->index_keys != run.engine->options().index_keys;
    if (candidate.named && other_keys) {
        return fail(Code::usage,
                    cat(printable(candidate.path.string()), ": recorded with --index-keys ",
                        trace->index_keys == IndexKeys::reference ? "reference" : "own",
                        "; run with the same value"));
    }
    if (candidate.named && other_model && !options.quiet) {
        std::fprintf(stderr, "sluice: %s was recorded with %s, but this model is called %s\n",
                     printable(candidate.path.string()).c_str(), printable(trace->model).c_str(),
                     printable(run.facts.model).c_str());
    }
    if (candidate.named) return std::optional<Trace>(std::move(*trace));
    if (other_model) return skip(cat("recorded with ", printable(trace->model)));
    if (other_keys) return skip("recorded with other index keys (--index-keys)");
    return std::optional<Trace>(std::move(*trace));
}

}  // namespace

int run_verify(const Options& options, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    auto list = candidates(options.traces);
    if (!list) return report_error(list.error());
    auto run = load_model(options, terminal, options.verbose);
    if (!run) return report_error(run.error());
    Output output(1);
    Tally tally;
    // Every trace is read before the first is compared, so that a damaged one stops nothing
    // half-way.
    std::vector<std::pair<std::string, Trace>> traces;
    for (const auto& candidate : *list) {
        auto trace = load_trace(candidate, *run, options);
        if (!trace) return report_error(trace.error());
        if (*trace) traces.emplace_back(candidate.path.string(), std::move(**trace));
    }
    tally.skipped = list->size() - traces.size();
    for (const auto& [path, trace] : traces) {
        auto report = compare(*run->engine, *run->session, trace);
        if (!report) return report_error(within(printable(path), report.error()).value());
        if (auto same = run->session->files_unchanged(); !same) return report_error(same.error());
        ++tally.compared;
        tally.differing += !report->pass;
        tally.steps += report->steps;
        for (const auto& flip : report->flips) tally.ties += flip.tie;
        tally.rel_max = std::max(tally.rel_max, report->rel_max);
        auto written = output.write(report_text(*report));
        if (!written) return report_error(written.error());
        if (output.reader_gone()) return exit_reader_gone;
    }
    if (tally.compared == 0) {
        return report_error(
            {Code::usage, cat("--verify: no trace of ", run->facts.model, " among ", list->size(),
                              " files (a model is identified by its folder name; a trace "
                              "given by file name is compared with any model)")});
    }
    if (auto kept = run->session->keep_routes(); !kept) return report_error(kept.error());
    auto written = output.write(summary(tally));
    if (!written) return report_error(written.error());
    return tally.differing == 0 ? exit_ok : exit_mismatch;
}

}  // namespace sluice
