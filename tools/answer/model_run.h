// Loads the model that the options name, and provides what every command that runs a model needs:
// sampling, prompts, messages while it loads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/prompt_cache/prompt_cache.h"
#include "engine/text/prompt.h"
#include "engine/text/sampler.h"
#include "io/error.h"
#include "tools/answer/answer_format.h"
#include "tools/answer/report.h"
#include "tools/options/options.h"
#include "tools/terminal/signals.h"
#include "tools/terminal/terminal.h"

namespace sluice {

struct ModelRun {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Session> session;
    RunFacts facts;
    SamplerOptions sampler;
    const ChatFormat* chat = nullptr;  // the model's
    PromptOptions prompt;
    Result<PromptWording> wording =
        fail(Code::not_found, "no model is loaded");  // or why what needs_wording() cannot be used
    AnswerFormat format;                              // of --format
    // Held from the load on. Declared last: released before the engine is destroyed, which waits
    // for reads in flight.
    std::unique_ptr<MustFinish> must_finish;
    // What was read of prompts; off where the options say so. Destroyed first: it writes what is
    // still to be written.
    std::unique_ptr<PromptCache> prompts;
};

// The same options with the prompt cache on, unless they say off.
Options with_prompt_cache(Options options);

// Loads the model, with a progress line on a terminal, and prepares a session that Ctrl-C stops.
// `report_placement`: print memory placement (and with --verbose the engine's notes) on stderr.
// `progress` (may be empty) receives the bytes done and the total.
Result<ModelRun> load_model(const Options& options, const Terminal& terminal, bool report_placement,
                            const std::function<void(uint64_t, uint64_t)>& progress = {});

// What the model of the options is called, also by a server of it: the name of its folder or
// repository. Where there is no such model here, as it was given. Requires a location.
std::string model_name(const Options& options);

// A random seed of 53 bits, so that every JSON reader keeps it.
uint64_t draw_seed();

// Returns what the engine calls before it measures reads for several seconds: it says so on stderr,
// on a line of its own or in `status`. Empty with --quiet. `status` must outlive the result.
std::function<void(double seconds)> measuring_notice(const Options& options,
                                                     const Terminal& terminal, StatusLine& status);

// The model's own sampling: temperature, top_k, top_p, min_p and repetition_penalty from the text
// of generation_config.json ("do_sample": false means temperature 0); where it has none, the model
// card's temperature 1.0 and top_p 0.95. The seed is random. Error (corrupt) names the field that
// is out of range; the caller adds the file's name.
Result<SamplerOptions> model_sampling(const std::string& generation_config);

// Overrides mode, stop strings and sampling with those that the options set.
void apply_options(ModelRun& run, const Options& options);

// The text of --system-prompt or --system-prompt-file; empty without either.
Result<std::string> system_message(const Options& options);
// The conversation in the file of --messages ("-": standard input).
Result<std::vector<Message>> messages_of(const Options& options);
// The text of -p or -f, followed, if standard input is a file or a pipe, by a line feed and its
// content. Line ends at the end of files and input are dropped. No prompt at all is a usage error.
Result<std::string> user_prompt(const Options& options, const Terminal& terminal);

}  // namespace sluice
