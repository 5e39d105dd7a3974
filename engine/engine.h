// The two nouns a front-end sees: Engine (a loaded model, immutable) and Session (one timeline of
// tokens).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/budget.h"
#include "engine/model/config.h"
#include "engine/options.h"
#include "engine/session.h"
#include "engine/settings.h"
#include "engine/stats.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

class Engine {
 public:
    // `progress` (may be empty) is told bytes done and in all; `cancel` (may be null) stops
    // loading.
    static Result<std::unique_ptr<Engine>> load(
        const EngineOptions& options, const std::function<void(uint64_t, uint64_t)>& progress = {},
        const std::atomic<bool>* cancel = nullptr);
    ~Engine();
    const ModelConfig& config() const;
    const Tokenizer& tokenizer() const;
    const EngineOptions& options() const;  // as asked
    const Settings& settings() const;      // as used: device, context, chunk, budgets, slots
    std::string model_name() const;        // of its folder
    std::string device_name() const;
    std::string io_name() const;  // "io_uring, O_DIRECT" and the cause of a fallback
    LoadFacts load_facts() const;
    const std::vector<BudgetLine>& placement() const;
    const std::vector<std::string>& notes() const;  // unused tensors by class, fallbacks
    uint64_t expert_bytes() const;                  // of one
    Result<std::unique_ptr<Session>> session();     // one at a time

    struct Impl;

 private:
    Engine();
    std::unique_ptr<Impl> impl_;
    friend class Session;
};

}  // namespace sluice
