// `sluice MODEL`: a conversation in the terminal.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Answers go to standard output, everything else to stderr. Ctrl-C stops an answer and keeps the
// conversation; on an empty line it says how to leave, and a second one leaves with 130. Ctrl-D and
// /bye leave with 0. An error in one answer is reported and the conversation continues.
int run_chat(const Options& options, const Terminal& terminal);

}  // namespace sluice
