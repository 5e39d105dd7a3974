// A Backend over kernels/reference, in host memory: what tests hold any other backend against.
#pragma once

#include <deque>
#include <vector>

#include "kernels/backend.h"

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

    void run(const ActQuant& op) override;
    void run(const RopeRequant& op) override;
    void run(const RmsNorm& op) override;
    void run(const LinearFp8& op) override;
    void run(const LinearBf16& op) override;
    void run(const GroupedOutput& op) override;
    void run(const HyperMix& op) override;
    void run(const HyperCollapse& op) override;
    void run(const HyperExpand& op) override;
    void run(const SparseAttention& op) override;
    void run(const WindowStore& op) override;
    void run(const CompressPool& op) override;
    void run(const IndexTopk& op) override;
    void run(const ScaleBf16& op) override;
    void run(const EngramGather& op) override;
    void run(const EngramGate& op) override;
    void run(const Route& op) override;
    void run(const Swiglu& op) override;
    void run(const RoutedExpert& op) override;
    void run(const Combine& op) override;

 private:
    std::deque<std::vector<std::byte>> memory_;
};

}  // namespace sluice
