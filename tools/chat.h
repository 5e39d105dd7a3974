// `sluice MODEL`: a conversation in the terminal.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Answers on standard output, everything else on stderr. Ctrl-C stops an answer and keeps the
// conversation; on an empty line it explains itself, and a second one leaves with 130. Ctrl-D and
// /bye leave with 0. An error of one answer is said and the conversation goes on.
int run_chat(const Options& options, const Terminal& terminal);

}  // namespace sluice
