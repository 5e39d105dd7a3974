// A compute device: its memory, and the operations of kernels/ops.h in order on one stream.
//
// The forward pass is written once against this class. Operations may return before they are done;
// download() and synchronize() wait for them and return the first error of asynchronous work. Used
// by one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/error.h"
#include "io/memory.h"
#include "kernels/ops.h"

namespace sluice {

// The largest of everything that a model asks for.
struct Shapes {
    int32_t n = 0;  // token rows per call
    int32_t dim = 0, inner = 0, experts = 0, top_k = 0;
    int32_t index_rows = 0;  // compressed rows of the context
    int32_t window = 0;
    int32_t attended_rows = 0;  // compressed rows of one query
    int32_t head_dim = 0, heads = 0;
    int32_t group_rank = 0;  // rows of one group of GroupedOutput
};

class Backend {
 public:
    virtual ~Backend() = default;
    virtual std::string name() const = 0;  // "cpu (avx512-vnni, 8 threads)"
    virtual bool host_memory() const = 0;  // the host may read and write its memory directly

    // Device memory, 256-byte aligned, freed with the backend. Error (no_memory): names the purpose
    // and the sizes.
    virtual Result<std::byte*> allocate(size_t bytes, std::string_view purpose) = 0;
    // In stream order; the host memory may be reused afterwards.
    virtual void upload(void* device, const void* host, size_t bytes) = 0;
    virtual Result<void> download(void* host, const void* device, size_t bytes) = 0;  // waits
    // In stream order.
    virtual void copy(void* device_to, const void* device_from, size_t bytes) = 0;
    // `rows` pieces of `bytes` each; pieces start `to_pitch` and `from_pitch` bytes apart.
    virtual void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t bytes, size_t rows);
    virtual void fill_zero(void* device, size_t bytes) = 0;
    virtual Result<void> synchronize() = 0;

    // A download that does not stall the device: operations run between fetch() and fetched()
    // continue while fetched() waits. They must not write what is being fetched. One fetch at a
    // time.
    virtual void fetch(const void* device, size_t bytes) { fetch_ = {device, bytes}; }
    virtual Result<void> fetched(void* host) { return download(host, fetch_.device, fetch_.bytes); }
    // From here to the next trip to the host, the operations are those that followed the last call
    // with this tag, in the same order; a device may send them together. Their arguments may
    // differ. So may the operations, but that costs time.
    virtual void begin_repeat(int32_t /*tag*/) {}

    // Host memory that operations may read in place (row lists, weights of a step). The host writes
    // it, and must not write it again before the operations that read it are done. Plain device
    // memory where host and device share theirs.
    virtual Result<std::byte*> allocate_shared(size_t bytes, std::string_view purpose) {
        return allocate(bytes, purpose);
    }
    // Bytes that allocate() and reserve() can still give, and bytes that reserve() would take for
    // `largest`.
    virtual uint64_t memory_limit() const { return UINT64_MAX; }
    virtual uint64_t reserve_bytes(const Shapes& /*largest*/) const { return 0; }
    // Takes scratch once, for the largest shapes to come. Backends that need none ignore it.
    virtual Result<void> reserve(const Shapes& /*largest*/) { return {}; }

    // A second lane for uploads beside compute, and marks that order the two. Marks only grow. The
    // defaults are those of a device that shares the host's memory, where every call is done when
    // it returns.
    virtual Result<void> pin(std::span<std::byte> /*host*/) { return {}; }
    virtual void upload_beside(void* device, const void* host, size_t bytes) {
        upload(device, host, bytes);
    }
    virtual uint64_t mark_uploads() { return 0; }  // after all upload_beside() so far
    virtual uint64_t mark_compute() { return 0; }  // after all run() so far
    virtual void compute_after_uploads(uint64_t /*mark*/) {}
    virtual void uploads_after_compute(uint64_t /*mark*/) {}
    virtual bool uploads_done(uint64_t /*mark*/) { return true; }
    virtual bool compute_done(uint64_t /*mark*/) { return true; }
    virtual Result<void> wait_uploads(uint64_t /*mark*/) { return {}; }

    // What the backend has done since the last clear_counters().
    struct Counters {
        uint64_t launches = 0;   // a graph counts as one
        uint64_t graphs = 0;     // launches that were graphs
        uint64_t waits = 0;      // the host waited for the device
        uint64_t downloads = 0;  // trips from device to host
        uint64_t upload_bytes = 0;
        uint64_t memory_peak = 0;
        // Measured by the device's own clock, for finished work: uploads beside compute, and
        // compute between two points where the device waits (including gaps between its launches).
        double upload_s = 0, busy_s = 0;
    };
    virtual Counters counters() const { return {}; }
    virtual void clear_counters() {}

    // One run() for every operation of kernels/ops.h. The composed ones run their parts unless a
    // backend has something better. The default of Best needs memory that the host can read.
#define SLUICE_DECLARE(Op) virtual void run(const Op& op) = 0;
    SLUICE_PLAIN_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE
#define SLUICE_DECLARE(Op) virtual void run(const Op& op);
    SLUICE_COMPOSED_OPS(SLUICE_DECLARE)
#undef SLUICE_DECLARE

 private:
    struct {
        const void* device = nullptr;
        size_t bytes = 0;
    } fetch_;
};

enum class CpuIsa { automatic, scalar, avx2, avx512, amx };
const char* isa_name(CpuIsa isa);
// Instruction sets that this CPU can run, slowest first; scalar is always there.
std::vector<CpuIsa> cpu_isas();

struct CpuOptions {
    CpuIsa isa = CpuIsa::automatic;  // naming one that the CPU lacks is an error (device)
    int threads = 0;                 // 0: the CPUs this process may use (affinity and cgroup quota)
};
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);
int usable_cpus();

// Implemented in kernels/cuda, or in a CPU-only build by kernels/cuda_absent.cpp, which returns an
// error.
struct CudaOptions {
    int device = 0;
    uint64_t vram_budget = 0;  // bytes; 0: all free memory minus a margin
    // How kernels reach the device. `graphs`: what begin_repeat() announces is sent as CUDA graphs;
    // by default only where kernels cannot overlap. `overlap`: a kernel starts while the one before
    // it drains; by default where the device supports it, and an error where it does not.
    std::optional<bool> graphs{}, overlap{};
};
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);
// Names of the visible CUDA devices; empty without a driver or a device. A device that fails to
// initialise is an error.
Result<std::vector<std::string>> cuda_devices();
// Scratch that the kernels need for `largest`: what Backend::reserve_bytes() of a CUDA device
// returns, but without a device. nullopt in a build without CUDA.
std::optional<uint64_t> cuda_scratch_bytes(const Shapes& largest);
// Device name, compute capability, driver and runtime version in one line.
Result<std::string> cuda_identity(int device);

// Floats of IndexTopk::scratch for n queries over `rows` rows.
size_t index_scratch_floats(int32_t n, int32_t rows);

}  // namespace sluice
