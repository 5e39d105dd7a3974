// The insides of Engine and Session, for engine.cpp, session.cpp and session_snapshot.cpp only.
#pragma once

#include <optional>

#include "engine/engine.h"
#include "engine/forward/checkpoints.h"
#include "engine/load/load.h"
#include "engine/snapshot/snapshot_file.h"

namespace sluice {

struct Engine::Impl {
    Loaded loaded;
    bool session_open = false;
    std::optional<SnapshotIdentity> identity;  // known after the first snapshot
};

struct Session::Impl {
    Engine::Impl* engine;
    RunStats stats;
    std::vector<float> logits;  // of the last position
    const std::atomic<bool>* cancel = nullptr;
    Probe* probe = nullptr;
    std::function<void(double)> progress;
    Checkpoints checkpoints;
    CheckpointReceiver receive_checkpoint;
    // Counters of the runtime's parts when the statistics were last cleared.
    RunStats cleared;

    Runtime& rt() { return engine->loaded.runtime; }
    State& state() { return *rt().state; }
};

// Hands over the checkpoints up to the present position (session_snapshot.cpp).
Result<void> deliver_checkpoints(Session::Impl& s);

}  // namespace sluice
