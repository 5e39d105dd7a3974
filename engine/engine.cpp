#include "engine/engine.h"

#include "engine/engine_impl.h"
#include "engine/warm_start.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

Result<std::unique_ptr<Engine>> Engine::load(
    const EngineOptions& options, const std::function<void(uint64_t, uint64_t)>& progress,
    const std::atomic<bool>* cancel) {
    const spans::Leaf leaf("load");
    std::unique_ptr<Engine> engine(new Engine());
    engine->impl_ = std::make_unique<Impl>();
    auto loaded = load_model(options, {progress, cancel}, engine->impl_->loaded);
    if (!loaded) return tl::unexpected(loaded.error());
    Runtime& rt = engine->impl_->loaded.runtime;
    if (rt.warm_start()) rt.tiers.cache->warm_up(recall_experts(rt));
    return engine;
}

Engine::Engine() = default;
Engine::~Engine() = default;

const ModelDescription& Engine::model() const {
    return *impl_->loaded.runtime.model;
}
const ModelConfig& Engine::config() const {
    return impl_->loaded.runtime.config;
}
const Tokenizer& Engine::tokenizer() const {
    return *impl_->loaded.tokenizer;
}
const EngineOptions& Engine::options() const {
    return impl_->loaded.runtime.options;
}
const Settings& Engine::settings() const {
    return impl_->loaded.runtime.settings;
}
std::string Engine::model_name() const {
    return impl_->loaded.runtime.checkpoint.folder().filename().string();
}
std::string Engine::device_name() const {
    return impl_->loaded.runtime.backend->name();
}
LoadFacts Engine::load_facts() const {
    return impl_->loaded.facts;
}

std::string Engine::io_name() const {
    return impl_->loaded.io_name;
}
const std::vector<BudgetLine>& Engine::placement() const {
    return impl_->loaded.placement;
}
const std::vector<std::string>& Engine::notes() const {
    return impl_->loaded.notes;
}
uint64_t Engine::expert_bytes() const {
    return impl_->loaded.runtime.experts->expert_bytes({0, 0});
}

Result<std::unique_ptr<Session>> Engine::session() {
    if (impl_->session_open) {
        return fail(Code::usage,
                    "this engine already has a session; close it before opening another");
    }
    auto impl = std::make_unique<Session::Impl>();
    impl->engine = impl_.get();
    impl->state().reset();
    impl_->session_open = true;
    std::unique_ptr<Session> session(new Session(std::move(impl)));
    session->clear_stats();
    return session;
}

}  // namespace sluice
