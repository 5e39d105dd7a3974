#include "kernels/reference/reference_backend.h"

#include <cstring>

namespace sluice {

Result<std::byte*> ReferenceBackend::allocate(size_t bytes, std::string_view) {
    return memory_.emplace_back(bytes + 1).data();
}
void ReferenceBackend::upload(void* device, const void* host, size_t bytes) {
    std::memcpy(device, host, bytes);
}
Result<void> ReferenceBackend::download(void* host, const void* device, size_t bytes) {
    std::memcpy(host, device, bytes);
    return {};
}
void ReferenceBackend::copy(void* to, const void* from, size_t bytes) {
    std::memmove(to, from, bytes);
}
void ReferenceBackend::fill_zero(void* device, size_t bytes) {
    std::memset(device, 0, bytes);
}

}  // namespace sluice
