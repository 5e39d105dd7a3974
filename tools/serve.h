// `sluice serve`: answers HTTP requests with a model that is loaded once.
#pragma once

#include "tools/options/options.h"
#include "tools/terminal/terminal.h"

namespace sluice {

// Listens before it loads, so that clients see 503 with the progress instead of no server. SIGTERM
// or Ctrl-C: no new requests, running answers end as interrupted, then the process. Returns the
// exit code.
int run_serve(const Options& options, const Terminal& terminal);

}  // namespace sluice
