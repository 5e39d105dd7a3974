// Source of kernels/backend.h in a CPU-only build, in place of kernels/cuda: asking for a GPU is an
// error that says why, so that no caller needs an #ifdef.
#include "kernels/backend.h"

namespace sluice {

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions&) {
    return fail(Code::device,
                "this build has no CUDA backend; build with -DSLUICE_CUDA=ON or use --device cpu");
}

Result<std::string> cuda_identity(int) {
    return fail(Code::device, "this build has no CUDA backend");
}

Result<std::vector<std::string>> cuda_devices() {
    return std::vector<std::string>{};
}

std::optional<uint64_t> cuda_scratch_bytes(const Shapes&) {
    return std::nullopt;
}

}  // namespace sluice
