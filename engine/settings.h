// The settings that an engine runs with, derived from options, model and machine. EngineOptions
// keep what the caller asked for; an option without a field here is used as given.
#pragma once

#include <cstdint>
#include <string>

#include "io/checkpoint/expert_reader.h"

namespace sluice {

struct Settings {
    std::string device;        // "cpu", "cuda" or "cuda:N"
    int32_t context = 0;       // tokens
    int32_t chunk = 0;         // prompt tokens at once
    uint64_t ram = 0;          // budget in bytes
    uint64_t vram = 0;         // budget in bytes; 0: the device computes in RAM
    uint32_t cache_slots = 0;  // experts kept in RAM
    uint32_t vram_slots = 0;   // experts kept in VRAM
    uint64_t prompt_cache_ram = 0;  // bytes for snapshots of prompts; 0: none are kept
    ExpertTuning tuning;       // how an expert is read
};

}  // namespace sluice
