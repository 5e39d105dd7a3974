// What a front end sees of the engine: Engine (a loaded model, immutable) and Session (one sequence
// of tokens, session.h).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/budget.h"
#include "engine/model/config.h"
#include "engine/model/model.h"
#include "engine/options.h"
#include "engine/session.h"
#include "engine/settings.h"
#include "engine/stats.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

class Engine {
 public:
    // `progress` (may be empty) receives the bytes done and the total; `cancel` (may be null) stops
    // loading.
    static Result<std::unique_ptr<Engine>> load(
        const EngineOptions& options, const std::function<void(uint64_t, uint64_t)>& progress = {},
        const std::atomic<bool>* cancel = nullptr);
    ~Engine();
    const ModelDescription& model() const;
    const ModelConfig& config() const;
    const Tokenizer& tokenizer() const;
    const EngineOptions& options() const;  // as asked
    const Settings& settings() const;      // as used: device, context, chunk, budgets, slots
    std::string model_name() const;        // the name of its folder
    std::string device_name() const;
    std::string io_name() const;  // such as "io_uring, O_DIRECT", with the cause of a fallback
    LoadFacts load_facts() const;
    const std::vector<BudgetLine>& placement() const;
    const std::vector<std::string>& notes() const;  // unused tensors by class, fallbacks
    uint64_t expert_bytes() const;                  // the size of one expert
    // One at a time; the engine outlives it.
    Result<std::unique_ptr<Session>> session();

    struct Impl;

 private:
    Engine();
    std::unique_ptr<Impl> impl_;
    friend class Session;
};

}  // namespace sluice
