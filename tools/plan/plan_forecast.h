// Computes tokens per second from bytes and rates.
//
//     t = max(drive, link, cpu, gpu)        full overlap: the limit
//     t = drive + link + cpu + gpu          no overlap: the floor
//
// Decode: a token uses K = layers x top_k experts of E bytes, hit rates v of VRAM and r of RAM:
//     drive  K (1 - v) (1 - r) E' / layer rate + Engram rows        E': widened to blocks
//     link   K (1 - v) E / link rate                                with a GPU
//     gpu    dense / dense rate + K E / expert rate + operations + trips to the host
//     cpu    the same without a GPU; with one, the head if it is in RAM
// Prompt, in chunks of m tokens: a layer's distinct experts under even routing,
// N (1 - (1 - top_k / N)^m), are copied and computed once per chunk, and read once per chunk group,
// as far as the cache can lend the group a layer's slots; matrices cost the larger of the time for
// their bytes and for their multiply-adds; only the last token goes through the head.
//
// Hit rates: cold 0. Warm with even routing: the share s of all experts that is cached. Warm with
// routing as skewed as in published runs of such models: s^0.4 (5.5 % cached: 31 %, published 33 %;
// 33 %: 64 %, published 78 %). A run whose reads are all ahead of their use reaches the limit
// within a few per cent; `sluice bench` and the last line of every answer report how close it came.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/load/memory_plan.h"
#include "tools/plan/plan_model.h"
#include "tools/plan/plan_rates.h"

namespace sluice {

enum class Warmth { cold, even, skewed };
const char* warmth_name(Warmth warmth);

struct Terms {  // seconds
    double drive = 0, link = 0, cpu = 0, gpu = 0;
    double longest() const;
    double sum() const { return drive + link + cpu + gpu; }
    const char* bottleneck() const;  // the longest: "drive", "link", "cpu" or "gpu"
};

struct Forecast {
    Warmth warmth = Warmth::cold;
    int32_t tokens = 1;  // length of the prompt; 1: a decode step
    double ram_hits = 0, vram_hits = 0;
    Terms terms;  // for all `tokens`
    double limit_tok_s() const { return tokens / terms.longest(); }
    double serial_tok_s() const { return tokens / terms.sum(); }
};

Forecast forecast_decode(const PlanModel& model, const Plan& plan, const MachineRates& rates,
                         Warmth warmth);
Forecast forecast_prompt(const PlanModel& model, const Plan& plan, const MachineRates& rates,
                         Warmth warmth, int32_t tokens);

}  // namespace sluice
