// Chooses who answers: the server of --attach, or a model that is loaded here.
#pragma once

#include <memory>

#include "tools/answer/answerer.h"
#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

struct OpenAnswerer {
    bool report_placement = false;  // load_model()
    bool predict_must_fit = false;  // local_answerer()
};

// A server that was asked for on the command line answers, or it is an error: one that cannot be
// reached, one that serves another model than the one given. A server that a variable or a file
// names is used if no model is given, or if it serves that model; else the model is loaded here,
// and a line on stderr says why (not with --quiet).
Result<std::unique_ptr<Answerer>> open_answerer(const Options& options, const Terminal& terminal,
                                                const OpenAnswerer& how);

}  // namespace sluice
