#include "engine/forward/cpu_experts.h"

#include <algorithm>
#include <system_error>

#include "io/clock.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

// Both sides poll for a moment before they sleep: waking up costs as much as half an expert.
constexpr int polls = 4000;

void wait_while(const std::atomic<uint32_t>& value, uint32_t old) {
    for (int i = 0; i < polls; ++i) {
        if (value.load(std::memory_order_acquire) != old) return;
        __builtin_ia32_pause();
    }
    value.wait(old, std::memory_order_acquire);
}

}  // namespace

uint64_t CpuExperts::bytes(const ModelConfig& config) {
    return static_cast<uint64_t>(rows_max) * config.top_k * config.hidden * sizeof(bf16);
}

CpuExperts::CpuExperts(const CpuExpertsOptions& options, std::unique_ptr<Backend> backend)
    : backend_(std::move(backend)),
      split_(options.share),
      held_max_(options.held_max),
      expert_bytes_(options.expert_bytes) {
    stats_.expert_bytes = expert_bytes_;
}

Result<std::unique_ptr<CpuExperts>> CpuExperts::create(const CpuExpertsOptions& options,
                                                       const ModelConfig& config,
                                                       uint64_t exchange_bytes) {
    const int cpus = usable_cpus();
    const int threads =
        options.threads > 0 ? options.threads : std::max(1, cpus - (cpus > 4 ? 2 : 1));
    auto backend = make_cpu_backend({.isa = options.isa, .threads = threads});
    if (!backend) return tl::unexpected(backend.error());
    std::unique_ptr<CpuExperts> made(new CpuExperts(options, std::move(*backend)));
    auto exchange = PageBuffer::create(exchange_bytes, "activations for experts on the CPU");
    if (!exchange) return tl::unexpected(exchange.error());
    made->exchange_ = std::move(*exchange);
    auto partials = PageBuffer::create(bytes(config), "partial results of experts on the CPU");
    if (!partials) return tl::unexpected(partials.error());
    made->partials_ = std::move(*partials);
    try {
        made->worker_ = std::thread([owner = made.get()] { owner->work(); });
    } catch (const std::system_error& error) {
        return fail(Code::device,
                    cat("cannot start a thread for experts on the CPU: ", error.code().message(),
                        "; --cpu-experts off runs without them"));
    }
    return made;
}

CpuExperts::~CpuExperts() {
    stop_ = true;
    asked_.fetch_add(1, std::memory_order_release);
    asked_.notify_one();
    if (worker_.joinable()) worker_.join();
}

double CpuExperts::now() const {
    return to_seconds(Clock::now().time_since_epoch());
}

// ---- the engine thread -------------------------------------------------------------------------

void CpuExperts::choose(std::span<const SplitItem> items) {
    collect();
    taken_.clear();
    slots_.clear();
    resident_left_ = 0;
    split_.assign(items, now(), on_cpu_);
    for (size_t i = 0; i < items.size(); ++i) {
        if (!on_cpu_[i]) continue;
        taken_.push_back(items[i].expert);
        resident_left_ += items[i].in_ram;
    }
    stats_.asked += items.size();
    stats_.computed += taken_.size();
}

bool CpuExperts::takes(int32_t expert) const {
    return std::find(taken_.begin(), taken_.end(), expert) != taken_.end();
}

void CpuExperts::add(RoutedExpert op, const ExpertHandle& handle) {
    op.out = partial();
    pending_.push_back(op);
    held_.push_back(handle);
    slots_.insert(slots_.end(), op.slots, op.slots + op.count);
    if (resident_left_ > 0) --resident_left_;
    if (resident_left_ == 0 || full()) submit();
}

void CpuExperts::submit() {
    if (pending_.empty()) return;
    submitted_ += static_cast<uint32_t>(pending_.size());
    {
        const std::lock_guard lock(mutex_);
        if (queue_.empty()) queued_at_ = now();
        queue_.insert(queue_.end(), pending_.begin(), pending_.end());
    }
    pending_.clear();
    asked_.fetch_add(1, std::memory_order_release);
    asked_.notify_one();
}

Result<void> CpuExperts::wait() {
    submit();
    for (uint32_t seen = done_.load(std::memory_order_acquire); seen != submitted_;
         seen = done_.load(std::memory_order_acquire)) {
        wait_while(done_, seen);
    }
    return backend_->synchronize();
}

// Adds what the worker measured to the rates.
void CpuExperts::collect() {
    const std::lock_guard lock(mutex_);
    split_.cpu_took(busy_s_, rows_done_, now());
    stats_.seconds += busy_s_;
    busy_s_ = 0;
    rows_done_ = 0;
}

void CpuExperts::uploads_took(double total_s) {
    split_.link_took(total_s - upload_s_, uploads_ - uploads_counted_, now());
    upload_s_ = total_s;
    uploads_counted_ = uploads_;
}

CpuExpertStats CpuExperts::stats() const {
    CpuExpertStats all = stats_;
    all.link_s = split_.rates().link_s;
    all.cpu_s = split_.rates().cpu_s;
    return all;
}

// ---- the worker --------------------------------------------------------------------------------

void CpuExperts::work() {
    std::vector<RoutedExpert> batch;
    double free_at = 0;
    for (uint32_t seen = 0;;) {
        wait_while(asked_, seen);
        if (stop_) return;
        seen = asked_.load(std::memory_order_acquire);
        double queued_at = 0;
        {
            const std::lock_guard lock(mutex_);
            batch.swap(queue_);
            queued_at = queued_at_;
        }
        if (batch.empty()) continue;
        const int64_t begin = spans::now();
        backend_->run(RoutedExpertBatch{batch.data(), static_cast<int32_t>(batch.size())});
        spans::add({"experts", begin, spans::now(), expert_bytes_ * batch.size(), 0, -1, -1,
                    spans::Track::cpu_experts, false});
        const double end = now();
        {
            const std::lock_guard lock(mutex_);
            busy_s_ += end - std::max(queued_at, free_at);
            for (const RoutedExpert& op : batch) rows_done_ += static_cast<uint64_t>(op.count);
        }
        free_at = end;
        done_.fetch_add(static_cast<uint32_t>(batch.size()), std::memory_order_release);
        done_.notify_one();
        batch.clear();
    }
}

}  // namespace sluice
