// The insides of Engine and Session, for engine.cpp and session.cpp only.
#pragma once

#include "engine/engine.h"
#include "engine/load/load.h"

namespace sluice {

struct Engine::Impl {
    Loaded loaded;
    bool session_open = false;
};

struct Session::Impl {
    Engine::Impl* engine;
    RunStats stats;
    std::vector<float> logits;  // of the last position
    const std::atomic<bool>* cancel = nullptr;
    Probe* probe = nullptr;
    std::function<void(double)> progress;
    // Counters of the runtime's parts when the statistics were last cleared.
    RunStats cleared;

    Runtime& rt() { return engine->loaded.runtime; }
    State& state() { return *rt().state; }
};

}  // namespace sluice
