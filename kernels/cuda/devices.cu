// Source of kernels/backend.h and device.cuh: which CUDA devices there are, what they call
// themselves, and what the kernels need.
#include <optional>
#include <string>
#include <vector>

#include "io/text.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/marks.cuh"

namespace sluice {

using cuda::check, cuda::meaning;

// No driver at all means no device; a driver that does not start is an error with its code.
Result<int> cuda::device_count() {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess) return count;
    cudaGetLastError();
    if (error == cudaErrorNoDevice) return 0;
    if (error == cudaErrorInsufficientDriver) {
        int version = 0;
        if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0) return 0;
    }
    return fail(Code::device, cat("CUDA failed to start: ", meaning(error)));
}

Result<void> cuda::require_device(int device) {
    auto count = device_count();
    if (!count) return tl::unexpected<Error>(count.error());
    if (*count == 0) {
        int version = 0;
        const bool driver = cudaDriverGetVersion(&version) == cudaSuccess && version > 0;
        return fail(Code::device,
                    driver ? "no CUDA GPU: the NVIDIA driver is installed but shows no GPU "
                             "(nvidia-smi lists GPUs; CUDA_VISIBLE_DEVICES can hide them)"
                           : "no CUDA GPU: no NVIDIA driver was found; install one");
    }
    if (device >= 0 && device < *count) return {};
    return fail(Code::device,
                cat("no CUDA GPU ", device, "; visible: ", *count,
                    " (--list-devices shows them; CUDA_VISIBLE_DEVICES can hide them)"));
}

Result<std::vector<std::string>> cuda_devices() {
    auto count = cuda::device_count();
    if (!count) return tl::unexpected<Error>(count.error());
    std::vector<std::string> names;
    for (int i = 0; i < *count; ++i) {
        cudaDeviceProp props{};
        if (auto read = check(cudaGetDeviceProperties(&props, i), cat("GPU ", i)); !read)
            return tl::unexpected<Error>(read.error());
        names.push_back(props.name);
    }
    return names;
}

Result<std::string> cuda_identity(int device) {
    if (auto there = cuda::require_device(device); !there)
        return tl::unexpected<Error>(there.error());
    cudaDeviceProp props{};
    if (auto read = check(cudaGetDeviceProperties(&props, device), cat("GPU ", device)); !read)
        return tl::unexpected<Error>(read.error());
    int driver = 0, runtime = 0;
    if (auto read = check(cudaDriverGetVersion(&driver), "driver version"); !read)
        return tl::unexpected<Error>(read.error());
    if (auto read = check(cudaRuntimeGetVersion(&runtime), "runtime version"); !read)
        return tl::unexpected<Error>(read.error());
    return cat(props.name, ", compute ", props.major, ".", props.minor, ", driver ", driver,
               ", runtime ", runtime);
}

std::optional<uint64_t> cuda_scratch_bytes(const Shapes& largest) {
    size_t bytes = 0;
    for (size_t need :
         {cuda::hyper_scratch_bytes(largest.n, largest.dim),
          cuda::index_scratch_bytes(largest.n, largest.index_rows),
          cuda::route_scratch_bytes(largest.n, largest.experts),
          cuda::attention_scratch_bytes(largest.heads, largest.window, largest.attended_rows,
                                        largest.head_dim),
          cuda::expert_scratch_bytes(cuda::expert_rows(largest), largest.dim, largest.inner)})
        bytes = need > bytes ? need : bytes;
    return (bytes + cuda::alignment - 1) / cuda::alignment * cuda::alignment;
}

}  // namespace sluice
