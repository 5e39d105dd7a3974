#include "tools/record.h"

#include <cstdio>

#include "engine/trace/trace.h"
#include "io/counted.h"
#include "io/text.h"
#include "tools/answer/messages.h"
#include "tools/answer/model_run.h"
#include "tools/answer/request.h"
#include "tools/options/user_text.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

Result<std::vector<Message>> conversation(const Options& options, const Terminal& terminal) {
    if (!options.messages_file.empty()) return messages_of(options);
    auto prompt = user_prompt(options, terminal);
    if (!prompt) return tl::unexpected(prompt.error());
    auto system = system_message(options);
    if (!system) return tl::unexpected(system.error());
    std::vector<Message> out;
    if (!system->empty()) out.push_back({Role::system, *system, {}});
    out.push_back({Role::user, *prompt, {}});
    return out;
}

}  // namespace

int run_record(const Options& options, const Terminal& terminal) {
    install_signals(SecondPress::leaves);
    const bool to_stdout = names_standard_output(options.output);
    auto output = to_stdout ? std::filesystem::path() : trace_output(options.output);
    if (!output) return report_error(output.error());
    auto messages = conversation(options, terminal);
    if (!messages) return report_error(messages.error());
    auto run = load_model(options, terminal, options.verbose);
    if (!run) return report_error(run.error());
    const Engine& engine = *run->engine;
    AnswerRequest request = default_request(*run, options);
    request.messages = std::move(*messages);
    auto ids = prompt_ids(*run, request);
    if (!ids) return report_error(ids.error());
    if (auto room = check_room(ids->size(), options.predict, run->facts.context); !room) {
        return report_error(room.error());
    }
    const int64_t room = run->facts.context - static_cast<int64_t>(ids->size());
    RecordOptions wanted;
    wanted.count =
        static_cast<int32_t>(options.predict < 0 ? std::min<int64_t>(room, 64) : options.predict);
    auto trace = record_trace(engine, *run->session, *ids, wanted);
    if (!trace) return report_error(trace.error());
    if (auto same = run->session->files_unchanged(); !same) return report_error(same.error());
    trace->model = run->facts.model;
    if (auto done = to_stdout ? Output(1).write(trace_text(*trace)) : write_trace(*output, *trace);
        !done) {
        return report_error({done.error().code, cat("-o ", done.error().message)});
    }
    if (!options.quiet) {
        std::fprintf(stderr, "%s: %s of prompt, %s recorded\n", options.output.c_str(),
                     counted(trace->prompt.size(), "token").c_str(),
                     counted(trace->tokens.size(), "token").c_str());
    }
    return exit_ok;
}

}  // namespace sluice
