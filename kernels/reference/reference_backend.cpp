#include "kernels/reference/reference_backend.h"

#include <cstring>

#include "kernels/reference/reference.h"

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

void ReferenceBackend::run(const ActQuant& op) {
    reference::run(op);
}
void ReferenceBackend::run(const RopeRequant& op) {
    reference::run(op);
}
void ReferenceBackend::run(const RmsNorm& op) {
    reference::run(op);
}
void ReferenceBackend::run(const LinearFp8& op) {
    reference::run(op);
}
void ReferenceBackend::run(const LinearBf16& op) {
    reference::run(op);
}
void ReferenceBackend::run(const GroupedOutput& op) {
    reference::run(op);
}
void ReferenceBackend::run(const HyperMix& op) {
    reference::run(op);
}
void ReferenceBackend::run(const HyperCollapse& op) {
    reference::run(op);
}
void ReferenceBackend::run(const HyperExpand& op) {
    reference::run(op);
}
void ReferenceBackend::run(const SparseAttention& op) {
    reference::run(op);
}
void ReferenceBackend::run(const WindowStore& op) {
    reference::run(op);
}
void ReferenceBackend::run(const CompressPool& op) {
    reference::run(op);
}
void ReferenceBackend::run(const IndexTopk& op) {
    reference::run(op);
}
void ReferenceBackend::run(const ScaleBf16& op) {
    reference::run(op);
}
void ReferenceBackend::run(const EngramGather& op) {
    reference::run(op);
}
void ReferenceBackend::run(const EngramGate& op) {
    reference::run(op);
}
void ReferenceBackend::run(const Route& op) {
    reference::run(op);
}
void ReferenceBackend::run(const Swiglu& op) {
    reference::run(op);
}
void ReferenceBackend::run(const RoutedExpert& op) {
    reference::run(op);
}
void ReferenceBackend::run(const Combine& op) {
    reference::run(op);
}

}  // namespace sluice
