// From options to a loaded model, and what every command that runs one needs besides.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/text/prompt.h"
#include "engine/text/sampler.h"
#include "io/error.h"
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
    StreamOptions stream;
    PromptOptions prompt;
    // From the load on; gone before the engine is taken apart, which waits for reads in flight.
    std::unique_ptr<MustFinish> whole;
};

// Loads with a progress line on a terminal, and prepares a session that Ctrl-C can stop. `tell`:
// print what is where on stderr, and the notes.
Result<ModelRun> load_model(const Options& options, const Terminal& terminal, bool tell);

// Says on stderr, in a line of its own or on `status`, that reads are measured at length, and for
// how long; nothing with --quiet. `status` outlives what is returned.
std::function<void(double seconds)> tell_measuring(const Options& options, const Terminal& terminal,
                                                   StatusLine& status);

// The model's own sampling: temperature, top_k, top_p, min_p and repetition_penalty of
// generation_config.json's text where given ("do_sample": false is temperature 0), else the card's
// 1.0 and 0.95; a drawn seed. A value out of range is corrupt, by name; the file is the caller's to
// name.
Result<SamplerOptions> model_sampling(const std::string& generation_config);

// Takes over what options say about mode, stops and sampling, where they say something.
void apply_options(ModelRun& run, const Options& options);

// --system-prompt or its file; empty when none.
Result<std::string> system_message(const Options& options);
// -p or -f, and standard input where it is a file or a pipe: appended to the prompt after a line
// feed. Line ends at the end of files and input are dropped. Nothing at all is a usage error.
Result<std::string> user_prompt(const Options& options, const Terminal& terminal);

GenerateOptions generate_options(const ModelRun& run, const Options& options);

}  // namespace sluice
