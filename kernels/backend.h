// The device: memory and the operations of kernels/ops.h, in order on one stream.
//
// The forward pass is written once against this class. Operations may return before they are done;
// download() and synchronize() wait. Errors of asynchronous work come out there. One thread.
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

// The largest of everything a model asks for.
struct Shapes {
    int32_t n = 0;  // token rows at once
    int32_t dim = 0, inner = 0, experts = 0, top_k = 0;
    int32_t index_rows = 0;  // compressed rows of the context
    int32_t window = 0, index_topk = 0, head_dim = 0, heads = 0;
    int32_t group_rank = 0;  // rows of a group of GroupedOutput
};

class Backend {
 public:
    virtual ~Backend() = default;
    virtual std::string name() const = 0;  // "cpu (avx512-vnni, 8 threads)"
    virtual bool host_memory()
        const = 0;  // its memory can be read and written by the host directly

    // Device memory, 256-byte aligned, freed with the backend. no_memory names purpose and sizes.
    virtual Result<std::byte*> allocate(size_t bytes, std::string_view purpose) = 0;
    virtual void upload(void* device, const void* host,
                        size_t bytes) = 0;  // in stream order; host memory may be reused after
    virtual Result<void> download(void* host, const void* device, size_t bytes) = 0;  // waits
    virtual void copy(void* device_to, const void* device_from,
                      size_t bytes) = 0;  // in stream order
    // `rows` pieces of `bytes`, each `to_pitch` and `from_pitch` after the one before.
    virtual void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                           size_t bytes, size_t rows);
    virtual void fill_zero(void* device, size_t bytes) = 0;
    virtual Result<void> synchronize() = 0;

    // A download that does not hold up the device: what is run between the two calls, and leaves
    // alone what is fetched, goes on while fetched() waits. One at a time.
    virtual void fetch(const void* device, size_t bytes) { fetch_ = {device, bytes}; }
    virtual Result<void> fetched(void* host) { return download(host, fetch_.device, fetch_.bytes); }
    // From here to the next trip to the host come the operations of the last time with this tag, in
    // the same order: a device may send them together. Their arguments may be others; so may the
    // operations, at a cost.
    virtual void begin_repeat(int32_t /*tag*/) {}

    // Host memory that operations may read in place (row lists, weights of a step): the host writes
    // it, and must not write it again before the operations that read it are done. Device memory
    // where that is the same.
    virtual Result<std::byte*> allocate_shared(size_t bytes, std::string_view purpose) {
        return allocate(bytes, purpose);
    }
    // Bytes that allocate() and reserve() can give in all; what reserve() will take for `largest`.
    virtual uint64_t memory_limit() const { return UINT64_MAX; }
    virtual uint64_t reserve_bytes(const Shapes& /*largest*/) const { return 0; }
    // The largest shapes to come, so that scratch is taken once. Backends with no use for it ignore
    // it.
    virtual Result<void> reserve(const Shapes& /*largest*/) { return {}; }

    // A second lane for uploads beside compute, and marks that order the two. Marks only grow. The
    // defaults are those of a device that shares the host's memory: everything is done when it
    // returns.
    virtual Result<void> pin(std::span<std::byte> /*host*/) { return {}; }
    virtual void upload_beside(void* device, const void* host, size_t bytes) {
        upload(device, host, bytes);
    }
    virtual uint64_t mark_uploads() { return 0; }  // all upload_beside so far
    virtual uint64_t mark_compute() { return 0; }  // all run() so far
    virtual void compute_after_uploads(uint64_t /*mark*/) {}
    virtual void uploads_after_compute(uint64_t /*mark*/) {}
    virtual bool uploads_done(uint64_t /*mark*/) { return true; }
    virtual bool compute_done(uint64_t /*mark*/) { return true; }
    virtual Result<void> wait_uploads(uint64_t /*mark*/) { return {}; }

    // What it has done since the last call of clear_counters().
    struct Counters {
        uint64_t launches = 0;   // calls: a graph is one
        uint64_t graphs = 0;     // of those
        uint64_t waits = 0;      // the host stood still for the device
        uint64_t downloads = 0;  // trips device to host
        uint64_t upload_bytes = 0;
        uint64_t memory_peak = 0;
        // By the device's own clock, of what is done: uploads beside compute, and compute between
        // two places where it waits (gaps between its launches included).
        double upload_s = 0, busy_s = 0;
    };
    virtual Counters counters() const { return {}; }
    virtual void clear_counters() {}

    // One run() for every operation of kernels/ops.h. The composed ones are computed from others
    // unless a backend has something better; that of Best needs memory that the host can read.
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
// What this CPU can run; scalar is always there.
std::vector<CpuIsa> cpu_isas();

struct CpuOptions {
    CpuIsa isa = CpuIsa::automatic;  // one the CPU lacks, asked for by name, is an error (device)
    int threads = 0;                 // 0: the CPUs this process may use (affinity and cgroup quota)
};
Result<std::unique_ptr<Backend>> make_cpu_backend(const CpuOptions& options);
int usable_cpus();

// kernels/cuda or, in a CPU-only build, kernels/cuda_absent.cpp, which fails with a sentence.
struct CudaOptions {
    int device = 0;
    uint64_t vram_budget = 0;  // bytes; 0: free now minus a margin
    // How kernels reach the card: what begin_repeat() announces as CUDA graphs (else where kernels
    // cannot overlap), and kernels that start while the one before drains (else where the card can;
    // asked of one that cannot it is an error).
    std::optional<bool> graphs{}, overlap{};
};
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);
// Visible CUDA devices by name; empty without driver or devices. An initialisation failure with a
// device present is an error.
Result<std::vector<std::string>> cuda_devices();
// Scratch the kernels need for `largest`, as Backend::reserve_bytes() of a card says, without one.
// nullopt in a build without CUDA.
std::optional<uint64_t> cuda_scratch_bytes(const Shapes& largest);
// Card, compute capability, driver and runtime in one line.
Result<std::string> cuda_identity(int device);

// Floats of IndexTopk::scratch for n queries over `rows` rows.
size_t index_scratch_floats(int32_t n, int32_t rows);

}  // namespace sluice
