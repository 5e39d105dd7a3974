// Answers with a model in this process.
#pragma once

#include <memory>

#include "tools/answer/answerer.h"
#include "tools/answer/model_run.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// `predict_must_fit`: a context without room for -n tokens is an error, instead of the answer's
// end.
std::unique_ptr<Answerer> local_answerer(ModelRun run, const Options& options,
                                         const Terminal& terminal, bool predict_must_fit);

}  // namespace sluice
