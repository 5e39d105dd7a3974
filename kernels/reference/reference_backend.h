// A Backend over kernels/reference in host memory: tests compare every other backend with it.
#pragma once

#include <deque>
#include <vector>

#include "kernels/backend.h"
#include "kernels/reference/reference.h"

namespace sluice {

class ReferenceBackend final : public Backend {
 public:
    using Backend::run;
    std::string name() const override { return "reference"; }
    bool host_memory() const override { return true; }
    Result<std::byte*> allocate(size_t bytes, std::string_view purpose) override;
    void upload(void* device, const void* host, size_t bytes) override;
    Result<void> download(void* host, const void* device, size_t bytes) override;
    void copy(void* to, const void* from, size_t bytes) override;
    void fill_zero(void* device, size_t bytes) override;
    Result<void> synchronize() override { return {}; }

#define SLUICE_CALL(Op)               \
    void run(const Op& op) override { \
        reference::run(op);           \
    }
    SLUICE_PLAIN_OPS(SLUICE_CALL)
#undef SLUICE_CALL

 private:
    std::deque<std::vector<std::byte>> memory_;
};

}  // namespace sluice
