// Source of kernels/backend.h: the CPU backend. Memory is host memory, and operations are done when
// run() returns.
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

struct OwnedTeam : Team {
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
        team_.threads = threads;
    }

    std::string name() const override {
        int threads = team_.threads;
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
    Result<void> synchronize() override { return team_.state; }

    using Backend::run;  // the other composed ones, as the sum of their parts
#define SLUICE_CALL(Op)               \
    void run(const Op& op) override { \
        table_.run_##Op(op, team_);   \
    }
    SLUICE_CPU_OPS(SLUICE_CALL)
#undef SLUICE_CALL

 private:
    CpuIsa isa_;
    const Table& table_;
    OwnedTeam team_;
    std::vector<PageBuffer> allocations_;
};

}  // namespace

void* reserve(Team& team, size_t bytes) {
    auto& owned = static_cast<OwnedTeam&>(team);
    if (owned.memory.data() && owned.memory.size() >= bytes) return owned.memory.data();
    // Freed before the larger one is taken, so that both need not fit.
    owned.memory = PageBuffer();
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

// OpenMP ends the program if it cannot start its threads. So starting them is tried first, all at
// once for a moment; then OpenMP starts its own, before other threads (of the read ring) take their
// places.
Result<void> can_start(int threads) {
    std::atomic<bool> enough = false;
    std::vector<std::thread> started;
    Result<void> result;
    try {
        for (int i = 1; i < threads; ++i) started.emplace_back([&] { enough.wait(false); });
    } catch (const std::system_error& error) {
        result =
            fail(Code::device,
                 cat("cannot start ", threads, " threads: ", error.code().message(),
                     "; use fewer (-t 1), or raise ulimit -u, -v or the pids limit of the cgroup"));
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
        return fail(Code::device, std::string("this CPU does not support instruction set ") +
                                      isa_name(isa) + "; the best it supports is " +
                                      isa_name(isas.back()));
    int threads =
        options.threads == 0 ? std::min(usable_cpus(), cpu::max_threads) : options.threads;
    if (threads < 1 || threads > cpu::max_threads)
        return fail(Code::usage, "CPU threads must be 1 to " + std::to_string(cpu::max_threads) +
                                     ", or 0 for all usable ones, not " +
                                     std::to_string(options.threads));
    if (threads > usable_cpus())
        log::warn_once("threads",
                       cat(threads, " threads share ", usable_cpus(),
                           " CPUs and wait for each other; -t ", usable_cpus(), " is faster"));
    if (auto started = can_start(threads); !started) return tl::unexpected(started.error());
    return std::make_unique<cpu::CpuBackend>(isa, threads);
}

}  // namespace sluice
