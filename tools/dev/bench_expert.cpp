// Prints the rates of the expert kernel.
//
//   bench_expert [SECONDS_PER_MEASUREMENT] [TURNS] [ROWS_PER_BATCH] [best] [THREADS]...
//
// "best" measures only the best instruction set. Without THREADS: 1 and all usable CPUs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/bench/bench_kernels.h"

int main(int argc, char** argv) {
    sluice::KernelBench bench;
    if (argc > 1) bench.seconds = std::atof(argv[1]);
    if (argc > 2) bench.turns = std::max(1, std::atoi(argv[2]));
    if (argc > 3) bench.batch_rows = std::max(1, std::atoi(argv[3]));
    if (argc > 4) bench.isas = {sluice::cpu_isas().back()};
    for (int i = 5; i < argc; ++i) bench.threads.push_back(std::atoi(argv[i]));
    auto rates = sluice::bench_kernels(bench);
    if (!rates) {
        std::fprintf(stderr, "bench_expert: %s\n", rates.error().message.c_str());
        return 1;
    }
    std::fputs(sluice::kernels_text(*rates).c_str(), stdout);
}
