#include "tools/options/command_table.h"

#include <string>

namespace sluice {

namespace {

// In the order of Command.
constexpr CommandSpec table[] = {
    {Command::answer, "", "MODEL", "chat in the terminal, or answer once",
     "Runs a mixture-of-experts model that is larger than memory, from unmodified safetensors\n"
     "files. MODEL is a folder, or an id such as org/name in the Hugging Face cache.",
     "chat"},
    {Command::serve, "serve", "MODEL", "answer HTTP requests: the APIs of OpenAI and Anthropic",
     "Loads a model once and answers HTTP requests: the APIs of OpenAI and Anthropic, and a page\n"
     "for the browser. One request is answered at a time; the others wait in a fair queue."},
    {Command::batch, "batch", "MODEL IN -o FILE", "answer many requests from a file",
     "Answers the requests in the lines of the file IN (as in OpenAI's batch files) and adds a\n"
     "line for each to FILE as soon as it is answered; run again, it goes on where it stopped.\n"
     "Without IN it answers the lines of standard input as they come; without -o, on stdout."},
    {Command::record, "record", "MODEL -o FILE", "write a greedy answer as a trace",
     "Answers greedily and writes the tokens and the best logits of each step as a trace, which\n"
     "`sluice MODEL --verify` compares with another run."},
    {Command::inspect, "inspect", "MODEL", "list tensors and sizes, check the files",
     "Lists the tensors of a checkpoint by class, with their sizes, and checks its headers;\n"
     "--check reads every byte."},
    {Command::simulate, "simulate", "ROUTES...",
     "replay recorded expert choices through cache policies",
     "Replays the expert choices recorded by --record-routes through eviction policies and\n"
     "predictors, and shows the hit rate of each."},
    {Command::bench, "bench", "MODEL", "measure decode, prefill, kernels and drives",
     "Measures decode, prefill, expert kernels and drives, and compares each with its limit."},
    {Command::plan, "plan", "MODEL",
     "estimate memory use, speed and the bottleneck without running",
     "Estimates memory use, speed and the bottleneck without running the model: from its config\n"
     "and headers, and from rates that are given, measured in a few seconds, or assumed."},
    {Command::selftest, "selftest", "", "compare the GPU's kernels with the reference kernels",
     "Runs every kernel of the device and compares its results with those of the reference\n"
     "kernels."},
};

}  // namespace

std::span<const CommandSpec> command_table() {
    return table;
}

const CommandSpec& command_spec(Command command) {
    return table[static_cast<size_t>(command)];
}

const CommandSpec* find_command(std::string_view name) {
    for (const CommandSpec& spec : table) {
        if (!name.empty() && (name == spec.name || name == spec.also)) return &spec;
    }
    return nullptr;
}

std::string command_title(Command command) {
    const std::string_view name = command_spec(command).name;
    return name.empty() ? "sluice" : "sluice " + std::string(name);
}

}  // namespace sluice
