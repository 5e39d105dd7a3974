// The CPU as a second place for routed experts, beside a device with memory of its own: experts
// that lie in RAM and not in VRAM are computed here while others cross the link.
//
//   choose()  ->  takes(expert)?  ->  add() each as it is in RAM  ->  wait()  ->  partials(), which
//   the caller uploads before Combine  ->  drop()
//
// A worker thread with its own team of threads computes; everything else is the engine thread's.
// Quantised activations come with the routes (exchange()), partials lie in the slots they have on
// the device. Routed experts are bit-equal on both sides (kernels/ops.h), so which side computes
// one shows in nothing but time.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "cache/expert_cache.h"
#include "engine/forward/expert_split.h"
#include "engine/model/config.h"
#include "engine/stats.h"
#include "io/memory.h"
#include "kernels/backend.h"

namespace sluice {

struct CpuExpertsOptions {
    CpuIsa isa = CpuIsa::automatic;
    int threads = 0;                // 0: what the engine thread and the reads leave
    std::optional<uint32_t> share;  // percent; empty: by measured rates
    size_t held_max = 1;            // experts added and not dropped
    uint64_t expert_bytes = 0;      // of one, for the statistics
};

class CpuExperts {
 public:
    // Token rows of a pass that it serves; a prompt chunk is the device's.
    static constexpr int32_t rows_max = 8;
    static uint64_t bytes(const ModelConfig& config);

    static Result<std::unique_ptr<CpuExperts>> create(const CpuExpertsOptions& options,
                                                      const ModelConfig& config,
                                                      uint64_t exchange_bytes);
    ~CpuExperts();

    // Where the routes and quantised rows of a pass are downloaded to; Workspace::fit() says how
    // they lie.
    std::span<std::byte> exchange(uint64_t bytes) { return exchange_.span().first(bytes); }

    // Settles which of the experts that a layer misses in VRAM are computed here.
    void choose(std::span<const SplitItem> items);
    bool takes(int32_t expert) const;

    // Starts an expert; `op` reads host memory only, its output is partial(). It holds `handle`
    // until drop(). Computing begins once all chosen experts that were in RAM are added.
    void add(RoutedExpert op, const ExpertHandle& handle);
    bool full() const { return held_.size() >= held_max_; }
    // Until everything added is computed.
    Result<void> wait();
    bf16* partial() const { return reinterpret_cast<bf16*>(partials_.data()); }
    std::span<const ExpertHandle> held() const { return held_; }
    std::span<const int32_t> slots() const { return slots_; }  // computed since choose()
    void drop() { held_.clear(); }                             // after wait()

    // Told of the device's uploads: seconds of its clock in all, and one more expert begun.
    void uploads_took(double seconds_in_all);
    void upload_begun() { ++uploads_; }
    void drive_takes(double seconds) { split_.drive_takes(seconds); }

    CpuExpertStats stats() const;
    std::string name() const { return backend_->name(); }

 private:
    CpuExperts(const CpuExpertsOptions& options, std::unique_ptr<Backend> backend);
    void submit();
    void work();
    void collect();
    double now() const;

    std::unique_ptr<Backend> backend_;
    ExpertSplit split_;
    PageBuffer exchange_, partials_;
    size_t held_max_;
    uint64_t expert_bytes_;

    // Of the layer.
    std::vector<int32_t> taken_;
    size_t resident_left_ = 0;  // chosen, in RAM when chosen, not added yet
    std::vector<uint8_t> on_cpu_;
    std::vector<RoutedExpert> pending_;
    std::vector<ExpertHandle> held_;
    std::vector<int32_t> slots_;
    uint32_t submitted_ = 0;

    // Shared with the worker.
    std::mutex mutex_;
    std::vector<RoutedExpert> queue_;
    double queued_at_ = 0;
    double busy_s_ = 0;  // since collect()
    uint64_t rows_done_ = 0;
    std::atomic<uint32_t> asked_{0};  // grows with every submit, and to stop
    std::atomic<uint32_t> done_{0};   // experts computed
    std::atomic<bool> stop_{false};
    std::thread worker_;

    uint64_t uploads_ = 0, uploads_counted_ = 0;
    double upload_s_ = 0;
    CpuExpertStats stats_;
};

}  // namespace sluice
