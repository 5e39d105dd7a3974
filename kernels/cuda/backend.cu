// Source of kernels/backend.h: the CUDA backend. One arena taken at start, a compute stream, an
// upload stream, and marks between the two.
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "io/log.h"
#include "io/text.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/marks.cuh"

namespace sluice {
namespace {

using cuda::alignment, cuda::check, cuda::meaning, cuda::Marks, cuda::Stopwatch;

constexpr size_t staging_bytes = 64 * 1024;  // for small downloads
constexpr uint64_t margin = 256ull << 20;    // left to desktop and driver when no budget is given

class CudaBackend final : public Backend {
 public:
    static Result<std::unique_ptr<Backend>> create(const CudaOptions& options);
    ~CudaBackend() override;

    std::string name() const override { return name_; }
    bool host_memory() const override { return false; }
    Result<std::byte*> allocate(size_t bytes, std::string_view purpose) override;
    Result<std::byte*> allocate_shared(size_t bytes, std::string_view purpose) override;
    Result<void> reserve(const Shapes& largest) override;
    void upload(void* device, const void* host, size_t bytes) override;
    Result<void> download(void* host, const void* device, size_t bytes) override;
    void copy(void* to, const void* from, size_t bytes) override;
    void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                   size_t rows) override;
    void fill_zero(void* device, size_t bytes) override;
    uint64_t memory_limit() const override { return size_ - used_; }
    uint64_t reserve_bytes(const Shapes& largest) const override;
    Result<void> synchronize() override;
    void fetch(const void* device, size_t bytes) override;
    Result<void> fetched(void* host) override;
    void begin_repeat(int32_t tag) override {
        if (use_graphs_) graphs_.begin(tag);
    }

    Result<void> pin(std::span<std::byte> host) override;
    void upload_beside(void* device, const void* host, size_t bytes) override;
    uint64_t mark_uploads() override {
        upload_time_.end(uploads_);
        return upload_marks_.record(uploads_);
    }
    uint64_t mark_compute() override { return compute_marks_.record(stream()); }
    void compute_after_uploads(uint64_t mark) override {
        compute_time_.end(stream());
        if (mark) note(cudaStreamWaitEvent(compute_, upload_marks_.event(mark)), "wait");
    }
    void uploads_after_compute(uint64_t mark) override {
        if (mark) note(cudaStreamWaitEvent(uploads_, compute_marks_.event(mark)), "wait");
    }
    bool uploads_done(uint64_t mark) override { return upload_marks_.done(mark); }
    bool compute_done(uint64_t mark) override { return compute_marks_.done(mark); }
    Result<void> wait_uploads(uint64_t mark) override {
        ++counters_.waits;
        return mark ? check(cudaEventSynchronize(upload_marks_.event(mark)), "uploads")
                    : Result<void>{};
    }
    Counters counters() const override {
        Counters c = counters_;
        c.memory_peak = used_;
        c.upload_s = upload_time_.seconds();
        c.busy_s = compute_time_.seconds();
        return c;
    }
    void clear_counters() override {
        counters_ = {};
        upload_time_.clear();
        compute_time_.clear();
    }

#define SLUICE_START(Op)              \
    void run(const Op& op) override { \
        start(#Op, op);               \
    }
    SLUICE_OPS(SLUICE_START)
#undef SLUICE_START

 private:
    Result<void> open(const CudaOptions& options);
    Result<std::byte*> take(size_t bytes, std::string_view purpose);

    // Asynchronous work has no place of its own to report a failure: the first one is kept, and the
    // next call that can return an error returns it.
    void note(cudaError_t error, std::string_view what) {
        if (error != cudaSuccess && !failure_)
            failure_ = Error{Code::device, cat("CUDA: ", what, ": ", meaning(error))};
    }
    void need(std::string_view what, size_t bytes) {
        if (bytes > scratch_.bytes && !failure_)
            failure_ = Error{Code::device, cat(what, " needs ", bytes, " bytes of scratch, but ",
                                               scratch_.bytes, " are reserved")};
    }
    cuda::Lane lane() {
        return {compute_, can_overlap_, &after_kernel_, &graphs_, &counters_.launches, scratch_};
    }
    // For everything that is not a kernel: sends what was recorded first.
    cudaStream_t stream() {
        send_recorded();
        after_kernel_ = false;
        return compute_;
    }
    void send_recorded() {
        if (graphs_.empty()) return;
        cuda::flush_graph(lane());
        note(cudaGetLastError(), "graph");
        ++counters_.graphs;
    }
    // The same for a trip to the host, which ends the sequence that begin_repeat() announced.
    cudaStream_t trip() {
        const cudaStream_t all = stream();
        graphs_.end();
        compute_time_.end(all);
        return all;
    }
    // Calls the operation's launch function. Where a composed operation has no launch for this
    // shape, its parts run one after another.
    template <class Op>
    void start(std::string_view name, const Op& op) {
        need(name, cuda::scratch_bytes(op));
        if (failure_) return;
        compute_time_.begin(compute_);
        if constexpr (std::is_void_v<decltype(cuda::launch(op, lane()))>)
            cuda::launch(op, lane());
        else if (!cuda::launch(op, lane()))
            return Backend::run(op);
        note(cudaGetLastError(), name);
    }
    Result<void> report() {
        if (!failure_) return {};
        return tl::unexpected<Error>(*failure_);
    }

    std::string name_;
    cudaStream_t compute_ = nullptr, uploads_ = nullptr;
    bool can_overlap_ = false, after_kernel_ = false;  // see cuda::Lane
    bool use_graphs_ = false;
    cuda::Graphs graphs_;
    std::byte* staging_ = nullptr;  // pinned, staging_bytes
    cudaEvent_t fetch_done_ = nullptr;
    size_t fetch_bytes_ = 0;
    Marks compute_marks_, upload_marks_;
    mutable Stopwatch compute_time_, upload_time_;
    std::byte* arena_ = nullptr;
    size_t size_ = 0, used_ = 0;
    size_t shared_limit_ = 0;
    cuda::KernelScratch scratch_;
    std::vector<void*> shared_;
    std::vector<void*> pinned_;
    std::optional<Error> failure_;
    Counters counters_;
};

Result<std::unique_ptr<Backend>> CudaBackend::create(const CudaOptions& options) {
    auto backend = std::make_unique<CudaBackend>();
    if (auto opened = backend->open(options); !opened) return tl::unexpected<Error>(opened.error());
    return backend;
}

Result<void> CudaBackend::open(const CudaOptions& options) {
    if (auto set = check(cudaSetDevice(options.device), cat("GPU ", options.device)); !set)
        return set;
    cudaDeviceProp props{};
    if (auto read = check(cudaGetDeviceProperties(&props, options.device), "properties"); !read)
        return read;
    name_ = cat("cuda:", options.device, " (", props.name, ", compute ", props.major, ".",
                props.minor, ")");
    cudaFuncAttributes probe{};
    if (auto code =
            check(cudaFuncGetAttributes(&probe, cuda::any_kernel()), "no code for this GPU");
        !code)
        return within(cat(name_, ": this build supports compute 7.5, 8.6, 8.9, 9.0 and 12.0"),
                      code.error());
    shared_limit_ = props.sharedMemPerBlockOptin;
    if (options.overlap == true && props.major < 9)
        return fail(Code::device, cat(name_, ": overlapping kernels need compute 9.0 or later"));
    can_overlap_ = options.overlap.value_or(props.major >= 9);
    use_graphs_ = options.graphs.value_or(!can_overlap_);
    size_t free = 0, total = 0;
    if (auto read = check(cudaMemGetInfo(&free, &total), "free memory"); !read) return read;
    size_ = options.vram_budget ? options.vram_budget : (free > margin ? free - margin : 0);
    size_ = size_ / alignment * alignment;
    if (size_ > free)
        return fail(Code::no_memory, cat(name_, ": --vram asks for ", size_text(size_), ", but ",
                                         size_text(free), " of ", size_text(total), " are free"));
    if (cudaMalloc(&arena_, size_) != cudaSuccess) {
        cudaGetLastError();
        return fail(Code::no_memory, cat(name_, ": cannot allocate ", size_text(size_), "; ",
                                         size_text(free), " are free"));
    }
    for (cudaStream_t* stream : {&compute_, &uploads_}) {
        auto made = check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
        if (!made) return made;
    }
    if (auto made =
            check(cudaHostAlloc(&staging_, staging_bytes, cudaHostAllocPortable), "staging");
        !made)
        return made;
    if (auto made = check(cudaEventCreateWithFlags(&fetch_done_, cudaEventDisableTiming), "event");
        !made)
        return made;
    if (auto made = compute_marks_.create(); !made) return made;
    if (auto made = upload_marks_.create(); !made) return made;
    if (auto made = compute_time_.create(); !made) return made;
    if (auto made = upload_time_.create(); !made) return made;
    auto tickets = take(cuda::tickets_max * sizeof(unsigned), "counters");
    if (!tickets) return tl::unexpected<Error>(tickets.error());
    scratch_.tickets = reinterpret_cast<unsigned*>(*tickets);
    fill_zero(scratch_.tickets, cuda::tickets_max * sizeof(unsigned));
    return report();
}

CudaBackend::~CudaBackend() {
    if (compute_) cudaStreamSynchronize(compute_);
    if (uploads_) cudaStreamSynchronize(uploads_);
    for (void* p : pinned_) cudaHostUnregister(p);
    for (void* p : shared_) cudaFreeHost(p);
    if (staging_) cudaFreeHost(staging_);
    if (fetch_done_) cudaEventDestroy(fetch_done_);
    if (compute_) cudaStreamDestroy(compute_);
    if (uploads_) cudaStreamDestroy(uploads_);
    if (arena_) cudaFree(arena_);
}

Result<std::byte*> CudaBackend::take(size_t bytes, std::string_view purpose) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    if (bytes > size_ - used_)
        return fail(Code::no_memory,
                    cat("VRAM: ", purpose, " needs ", size_text(bytes), ", but only ",
                        size_text(size_ - used_), " of ", size_text(size_),
                        " are left; use a smaller context, chunk or cache"));
    std::byte* at = arena_ + used_;
    used_ += bytes;
    return at;
}

Result<std::byte*> CudaBackend::allocate(size_t bytes, std::string_view purpose) {
    return take(bytes, purpose);
}

Result<std::byte*> CudaBackend::allocate_shared(size_t bytes, std::string_view purpose) {
    void* memory = nullptr;
    if (auto got = check(
            cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocMapped | cudaHostAllocPortable),
            purpose);
        !got)
        return tl::unexpected<Error>(got.error());
    shared_.push_back(memory);
    return static_cast<std::byte*>(memory);
}

uint64_t CudaBackend::reserve_bytes(const Shapes& largest) const {
    return *cuda_scratch_bytes(largest);
}

Result<void> CudaBackend::reserve(const Shapes& largest) {
    size_t attention =
        cuda::attention_shared_bytes(largest.window, largest.attended_rows, largest.head_dim);
    size_t limit = shared_limit_ < cuda::shared_max ? shared_limit_ : cuda::shared_max;
    if (attention > limit)
        return fail(
            Code::unsupported,
            cat("window ", largest.window, " and attended rows ", largest.attended_rows, " need ",
                attention, " bytes of shared memory in attention, but the GPU's kernels may use ",
                limit));
    if (largest.group_rank % 16)
        return fail(Code::unsupported,
                    cat("o_lora_rank ", largest.group_rank, " is not a multiple of 16"));
    size_t bytes = reserve_bytes(largest);
    auto memory = take(bytes, "scratch of the kernels");
    if (!memory) return tl::unexpected<Error>(memory.error());
    scratch_.memory = *memory;
    scratch_.bytes = bytes;
    return {};
}

void CudaBackend::upload(void* device, const void* host, size_t bytes) {
    compute_time_.end(stream());
    note(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, compute_), "upload");
    cudaPointerAttributes kind{};
    // Pageable memory is staged before the call returns. Pinned memory is read later, so the caller
    // has to wait.
    if (cudaPointerGetAttributes(&kind, host) == cudaSuccess && kind.type == cudaMemoryTypeHost) {
        note(cudaStreamSynchronize(compute_), "upload");
        ++counters_.waits;
    }
    cudaGetLastError();
    counters_.upload_bytes += bytes;
}

Result<void> CudaBackend::download(void* host, const void* device, size_t bytes) {
    if (bytes <= staging_bytes) {
        fetch(device, bytes);
        return fetched(host);
    }
    note(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, trip()), "download");
    note(cudaStreamSynchronize(compute_), "download");
    ++counters_.waits;
    ++counters_.downloads;
    return report();
}

void CudaBackend::fetch(const void* device, size_t bytes) {
    fetch_bytes_ = bytes;
    if (bytes > staging_bytes) return Backend::fetch(device, bytes);
    note(cudaMemcpyAsync(staging_, device, bytes, cudaMemcpyDeviceToHost, trip()), "download");
    note(cudaEventRecord(fetch_done_, compute_), "download");
}

Result<void> CudaBackend::fetched(void* host) {
    if (fetch_bytes_ > staging_bytes) return Backend::fetched(host);
    send_recorded();
    note(cudaEventSynchronize(fetch_done_), "download");
    ++counters_.waits;
    ++counters_.downloads;
    if (auto done = report(); !done) return done;
    std::memcpy(host, staging_, fetch_bytes_);
    return {};
}

void CudaBackend::copy(void* to, const void* from, size_t bytes) {
    note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copy");
    ++counters_.launches;
}

void CudaBackend::copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                            size_t bytes, size_t rows) {
    note(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, cudaMemcpyDeviceToDevice,
                           stream()),
         "copy");
    ++counters_.launches;
}

void CudaBackend::fill_zero(void* device, size_t bytes) {
    note(cudaMemsetAsync(device, 0, bytes, stream()), "fill");
}

Result<void> CudaBackend::synchronize() {
    trip();
    upload_time_.end(uploads_);
    note(cudaStreamSynchronize(uploads_), "uploads");
    note(cudaStreamSynchronize(compute_), "compute");
    ++counters_.waits;
    return report();
}

// Without pinning, uploads are slower and no longer run beside compute, but results are the same.
// So failing to pin is a warning, not an error.
Result<void> CudaBackend::pin(std::span<std::byte> host) {
    cudaError_t error = cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable);
    if (error == cudaSuccess) {
        pinned_.push_back(host.data());
        return {};
    }
    cudaGetLastError();
    log::warn_once("pin", cat("cannot pin ", size_text(host.size()), " of RAM (", meaning(error),
                              "): uploads to the GPU will be slower"));
    return {};
}

void CudaBackend::upload_beside(void* device, const void* host, size_t bytes) {
    upload_time_.begin(uploads_);
    note(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, uploads_), "upload");
    counters_.upload_bytes += bytes;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
    if (auto there = cuda::require_device(options.device); !there)
        return tl::unexpected<Error>(there.error());
    return CudaBackend::create(options);
}

}  // namespace sluice
