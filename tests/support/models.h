// The test checkpoints and their traces.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/trace/trace.h"
#include "tests/support/paths.h"

namespace sluice::test {

inline std::string model_path(const std::string& name) {
    return std::string(test::models_folder) + "/" + name;
}

inline EngineOptions model_options(const std::string& name) {
    EngineOptions options;
    options.locations = {model_path(name)};
    const char* device = std::getenv("SLUICE_TEST_DEVICE");  // "cuda": gpu_check.sh
    options.device = device ? device : "cpu";
    options.context = 512;
    options.ram = uint64_t{1} << 30;
    options.prefetch = 0;
    return options;
}

inline std::unique_ptr<Engine> load_engine(const EngineOptions& options) {
    auto engine = Engine::load(options);
    if (!engine) FAIL(engine.error().message);
    return std::move(*engine);
}

inline std::unique_ptr<Session> open_session(Engine& engine) {
    auto session = engine.session();
    if (!session) FAIL(session.error().message);
    return std::move(*session);
}

// The golden traces of a model that were made with these index keys.
inline std::vector<Trace> golden_traces(const std::string& model, IndexKeys keys) {
    auto paths = find_traces({test::golden_folder});
    if (!paths) FAIL(paths.error().message);
    std::vector<Trace> traces;
    for (const auto& path : *paths) {
        if (!path.filename().string().starts_with(model)) continue;
        auto trace = read_trace(path);
        if (!trace) FAIL(trace.error().message);
        if (trace->index_keys == keys) traces.push_back(std::move(*trace));
    }
    return traces;
}

}  // namespace sluice::test
