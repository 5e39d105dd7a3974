// The CPU as a Backend: memory is host memory, operations are done when run() returns.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "io/log.h"
#include "io/text.h"
#include "kernels/backend.h"
#include "kernels/cpu/table.h"

namespace sluice {
namespace cpu {
namespace {

constexpr int max_threads = 1024;

struct OwnedWorkspace : Workspace {
    PageBuffer memory;
    Result<void> state;
};

const Table& table_of(CpuIsa isa) {
    if (isa == CpuIsa::amx) return table_amx();
    if (isa == CpuIsa::avx512) return table_avx512();
    if (isa == CpuIsa::avx2) return table_avx2();
    return table_scalar();
}

class CpuBackend final : public Backend {
 public:
    CpuBackend(CpuIsa isa, int threads) : isa_(isa), table_(table_of(isa)) {
        workspace_.threads = threads;
    }

    std::string name() const override {
        int threads = workspace_.threads;
        return std::string("cpu (") + isa_name(isa_) + ", " + std::to_string(threads) +
               (threads == 1 ? " thread)" : " threads)");
    }
    bool host_memory() const override { return true; }

    Result<std::byte*> allocate(size_t bytes, std::string_view purpose) override {
        auto buffer = PageBuffer::create(std::max<size_t>(bytes, 1), purpose);
        if (!buffer) return tl::unexpected(buffer.error());
        allocations_.push_back(std::move(*buffer));
        return allocations_.back().data();
    }
    void upload(void* device, const void* host, size_t bytes) override {
        copy(device, host, bytes);
    }
    Result<void> download(void* host, const void* device, size_t bytes) override {
        copy(host, device, bytes);
        return synchronize();
    }
    void copy(void* to, const void* from, size_t bytes) override {
        if (bytes > 0) std::memmove(to, from, bytes);
    }
    void fill_zero(void* device, size_t bytes) override {
        if (bytes > 0) std::memset(device, 0, bytes);
    }
    Result<void> synchronize() override { return workspace_.state; }

    using Backend::run;  // the chains, as the sum of their parts
    void run(const ActQuant& op) override { table_.act_quant(op, workspace_); }
    void run(const RopeRequant& op) override { table_.rope_requant(op, workspace_); }
    void run(const RmsNorm& op) override { table_.rms_norm(op, workspace_); }
    void run(const LinearFp8& op) override { table_.linear_fp8(op, workspace_); }
    void run(const LinearBf16& op) override { table_.linear_bf16(op, workspace_); }
    void run(const GroupedOutput& op) override { table_.grouped_output(op, workspace_); }
    void run(const HyperMix& op) override { table_.hyper_mix(op, workspace_); }
    void run(const HyperCollapse& op) override { table_.hyper_collapse(op, workspace_); }
    void run(const HyperExpand& op) override { table_.hyper_expand(op, workspace_); }
    void run(const SparseAttention& op) override { table_.sparse_attention(op, workspace_); }
    void run(const WindowStore& op) override { table_.window_store(op, workspace_); }
    void run(const CompressPool& op) override { table_.compress_pool(op, workspace_); }
    void run(const IndexTopk& op) override { table_.index_topk(op, workspace_); }
    void run(const ScaleBf16& op) override { table_.scale_bf16(op, workspace_); }
    void run(const EngramGather& op) override { table_.engram_gather(op, workspace_); }
    void run(const EngramGate& op) override { table_.engram_gate(op, workspace_); }
    void run(const Route& op) override { table_.route(op, workspace_); }
    void run(const Swiglu& op) override { table_.swiglu(op, workspace_); }
    void run(const RoutedExpert& op) override { run(RoutedExpertBatch{&op, 1}); }
    void run(const RoutedExpertBatch& op) override { table_.routed_experts(op, workspace_); }
    void run(const Combine& op) override { table_.combine(op, workspace_); }

 private:
    CpuIsa isa_;
    const Table& table_;
    OwnedWorkspace workspace_;
    std::vector<PageBuffer> allocations_;
};

}  // namespace

void* reserve(Workspace& workspace, size_t bytes) {
    auto& owned = static_cast<OwnedWorkspace&>(workspace);
    if (owned.memory.data() && owned.memory.size() >= bytes) return owned.memory.data();
    owned.memory = PageBuffer();  // before the larger one, so that both need not fit
    auto grown = PageBuffer::create(std::max<size_t>(round_up(bytes, 1 << 20), 1 << 20),
                                    "scratch of the CPU backend");
    if (!grown) {
        if (owned.state) owned.state = tl::unexpected(grown.error());
        return nullptr;
    }
    owned.memory = std::move(*grown);
    return owned.memory.data();
}

}  // namespace cpu

namespace {

// OpenMP ends the program where it may not start its threads, so that is tried before: all at once,
// for a moment. Then it starts its own, before others (of the ring) take their places.
Result<void> can_start(int threads) {
    std::atomic<bool> enough = false;
    std::vector<std::thread> started;
    Result<void> result;
    try {
        for (int i = 1; i < threads; i++) started.emplace_back([&] { enough.wait(false); });
    } catch (const std::system_error& error) {
        result = fail(
            Code::device,
            cat("cannot start ", threads, " threads: ", error.code().message(),
                "; take fewer (-t 1), or raise ulimit -u, -v or the pids limit of the cgroup"));
    }
    enough = true;
    enough.notify_all();
    for (std::thread& thread : started) thread.join();
    if (!result) return result;
#pragma omp parallel num_threads(threads)
    enough.load(std::memory_order_relaxed);
    return {};
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options) {
    std::vector<CpuIsa> isas = cpu_isas();
    CpuIsa isa = options.isa == CpuIsa::automatic ? isas.back() : options.isa;
    if (std::find(isas.begin(), isas.end(), isa) == isas.end())
        return fail(Code::device, std::string("this CPU cannot run instruction set ") +
                                      isa_name(isa) + "; the best it has is " +
                                      isa_name(isas.back()));
    int threads =
        options.threads == 0 ? std::min(usable_cpus(), cpu::max_threads) : options.threads;
    if (threads < 1 || threads > cpu::max_threads)
        return fail(Code::usage, "CPU threads must be 1 to " + std::to_string(cpu::max_threads) +
                                     ", or 0 for all usable ones, not " +
                                     std::to_string(options.threads));
    if (threads > usable_cpus())
        log::warn_once("threads",
                       cat(threads, " threads for ", usable_cpus(),
                           " CPUs wait for each other; -t ", usable_cpus(), " is faster"));
    if (auto started = can_start(threads); !started) return tl::unexpected(started.error());
    return std::make_unique<cpu::CpuBackend>(isa, threads);
}

}  // namespace sluice
