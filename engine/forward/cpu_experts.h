// The CPU as a second place that computes routed experts, beside a device with memory of its own:
// experts that are in RAM and not in VRAM are computed here while others are uploaded.
//
//   choose()  ->  takes(expert)?  ->  add() each one once it is in RAM  ->  wait()  ->  the caller
//   uploads partial() before Combine  ->  drop()
//
// A worker thread with its own team of threads computes; everything else runs on the engine thread.
// Quantised activations come with the routes (exchange()); partial results have the same slots as
// on the device. Routed experts are bit-equal on both sides (kernels/ops.h), so only time depends
// on which side computes one.
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
    int threads = 0;                // 0: the CPUs that the engine thread and the reads leave
    std::optional<uint32_t> share;  // percent of the experts; empty: depends on measured rates
    size_t held_max = 1;            // experts added and not dropped, at most
    uint64_t expert_bytes = 0;      // size of one, for the statistics
};

class CpuExperts {
 public:
    // It takes part in passes of at most this many tokens; a prompt chunk is the device's alone.
    static constexpr int32_t rows_max = 8;
    static uint64_t bytes(const ModelConfig& config);  // of the partial results

    static Result<std::unique_ptr<CpuExperts>> create(const CpuExpertsOptions& options,
                                                      const ModelConfig& config,
                                                      uint64_t exchange_bytes);
    ~CpuExperts();

    // Where the routes and quantised rows of a pass are downloaded to; laid out as
    // exchange_places() in layer_moe.h says.
    std::span<std::byte> exchange(uint64_t bytes) { return exchange_.span().first(bytes); }

    // Decides which of the experts that a layer misses in VRAM are computed here.
    void choose(std::span<const SplitItem> items);
    bool takes(int32_t expert) const;

    // Starts an expert; `op` reads host memory only, its output is partial(). It holds `handle`
    // until drop(). Computing begins once all chosen experts that were in RAM are added.
    void add(RoutedExpert op, const ExpertHandle& handle);
    bool full() const { return held_.size() >= held_max_; }
    // Returns when everything added is computed.
    Result<void> wait();
    bf16* partial() const { return reinterpret_cast<bf16*>(partials_.data()); }
    std::span<const ExpertHandle> held() const { return held_; }
    std::span<const int32_t> slots() const { return slots_; }  // computed since choose()
    void drop() { held_.clear(); }                             // after wait()

    // Measurements for choose(): the total seconds of uploads by the device's clock, one more
    // upload begun, the seconds that reading an expert takes.
    void uploads_took(double total_s);
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

    // The layer that runs:
    std::vector<int32_t> taken_;
    size_t resident_left_ = 0;  // chosen, in RAM when chosen, not added yet
    std::vector<uint8_t> on_cpu_;
    std::vector<RoutedExpert> pending_;
    std::vector<ExpertHandle> held_;
    std::vector<int32_t> slots_;
    uint32_t submitted_ = 0;

    // Shared with the worker:
    std::mutex mutex_;
    std::vector<RoutedExpert> queue_;
    double queued_at_ = 0;
    double busy_s_ = 0;  // since collect()
    uint64_t rows_done_ = 0;
    std::atomic<uint32_t> asked_{0};  // grows with every submit() and to stop
    std::atomic<uint32_t> done_{0};   // experts computed
    std::atomic<bool> stop_{false};
    std::thread worker_;

    uint64_t uploads_ = 0, uploads_counted_ = 0;
    double upload_s_ = 0;
    CpuExpertStats stats_;
};

}  // namespace sluice
