// Makes the standard streams safe, reads the options and runs one command.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "io/log.h"
#include "io/profile.h"
#include "tools/about.h"
#include "tools/batch.h"
#include "tools/bench.h"
#include "tools/chat.h"
#include "tools/inspect.h"
#include "tools/one_shot.h"
#include "tools/options/options.h"
#include "tools/options/suggestions.h"
#include "tools/plan.h"
#include "tools/record.h"
#include "tools/selftest.h"
#include "tools/serve.h"
#include "tools/simulate.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"
#include "tools/terminal/terminal.h"
#include "tools/verify.h"

namespace {

using namespace sluice;

// Runs before libgomp reads its settings: threads that wait for work sleep after about a tenth of a
// millisecond instead of many. If other programs want the cores, a thread that spins keeps the one
// it waits for from running; small models were ten times slower.
// Settings of OpenMP for other programs must not change this one: libgomp ends the process, or
// crashes, over stacks and CPUs that do not fit.
[[gnu::constructor(101)]] void settle_openmp() {
    for (const char* name :
         {"GOMP_CPU_AFFINITY", "GOMP_STACKSIZE", "OMP_STACKSIZE", "OMP_PLACES", "OMP_PROC_BIND",
          "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OMP_MAX_ACTIVE_LEVELS", "OMP_NUM_THREADS",
          "OMP_SCHEDULE", "OMP_NESTED", "OMP_CANCELLATION"})
        unsetenv(name);
    if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "5000", 0);
}

// Large allocations are checked where they are made. This is for the many small ones, also in
// libraries, which would otherwise end in an exception or make a good file look damaged.
void out_of_memory() {
    constexpr std::string_view text =
        "sluice: out of memory: the machine, the container or ulimit -v allows no more "
        "(lower --ram or -c)\n";
    restore_terminal();
    [[maybe_unused]] const auto written = ::write(2, text.data(), text.size());
    ::_exit(exit_machine);
}

const char* environment(const char* name) {
    return std::getenv(name);
}

int run_answer(const Options& options, const Terminal& terminal) {
    if (!options.traces.empty()) return run_verify(options, terminal);
    bool prompted =
        options.prompt || !options.prompt_file.empty() || !options.messages_file.empty();
    bool chat = terminal.stdin_tty && !prompted && !options.json && options.session_file.empty();
    return chat ? run_chat(options, terminal) : run_once(options, terminal);
}

int run_command(const Options& options, const Terminal& terminal) {
    switch (options.command) {
        case Command::answer:
            return run_answer(options, terminal);
        case Command::serve:
            return run_serve(options, terminal);
        case Command::record:
            return run_record(options, terminal);
        case Command::batch:
            return run_batch(options, terminal);
        case Command::inspect:
            return run_inspect(options);
        case Command::simulate:
            return run_simulate(options);
        case Command::bench:
            return run_bench(options, terminal);
        case Command::plan:
            return run_plan(options);
        case Command::selftest:
            return run_selftest(options);
    }
    return exit_usage;
}

// The profile is written even if the run fails; the exit code is that of the run then.
int run_profiled(const Options& options, const Terminal& terminal) {
    if (options.profile_file.empty()) return run_command(options, terminal);
    if (auto begun = spans::start(options.profile_file); !begun) return report_error(begun.error());
    const int code = run_command(options, terminal);
    auto written = spans::finish();
    const int write_code = written ? int{exit_ok} : report_error(written.error());
    return code == exit_ok ? write_code : code;
}

}  // namespace

int main(int argc, char** argv) {
    std::set_new_handler(out_of_memory);
    bool stdin_open = secure_standard_streams();
    remember_terminal();
    auto invocation = parse_options(std::vector<std::string>(argv + 1, argv + argc), environment);
    if (!invocation) return report_error(invocation.error());
    const Options& options = invocation->options;
    if (options.show != Show::nothing) return run_about(options);
    set_flag_origins(std::move(invocation->origins));
    log::Level level = options.quiet     ? log::Level::error
                       : options.verbose ? log::Level::info
                                         : log::Level::warn;
    log::set_level(options.log_level.value_or(level));
    if (const std::string unused = unused_variables(environ); !unused.empty()) log::warn(unused);
    return run_profiled(options, inspect_terminal(options.color, stdin_open));
}
