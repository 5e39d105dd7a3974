// What the server is doing, as text: the format of Prometheus, and JSON for the page.
//
// /live:
//     {"model", "device", "context",
//      "tok_s", "limit_tok_s", "binds",              // of the running or the last answer; or null
//      "drives": [{"bytes", "bytes_s"}],             // since the start; now
//      "tiers": {"ram": {"hit_rate", "used", "slots"}, "vram": ...},  // decode; or null: no slots
//      "queue": waiting requests,
//      "running": {"prompt_done": 0..1, "tokens"},   // or null
//      "totals": {"answers", "prompt_tokens", "cached_tokens", "completion_tokens",
//                 "prompt_s", "decode_s"}}
// /live/experts:
//     {"layers", "experts", "cached": ["0120...", ...]}
//     a text for each layer with a digit for each expert: 0 on the drive only, 1 in RAM, 2 in VRAM,
//     3 in both.
#pragma once

#include <string>

#include "tools/server/monitor.h"
#include "tools/server/request_queue.h"
#include "tools/server/served_model.h"

namespace sluice {

std::string live_json(const ServedModel& model, const Note& note, const RequestQueue& queue);
std::string experts_json(const CachedExperts& experts);
// Text format 0.0.4. `connections`: open now.
std::string metrics_text(const Monitor& monitor, const RequestQueue& queue, size_t connections);

}  // namespace sluice
