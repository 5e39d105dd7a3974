// A device with memory of its own, made of the CPU backend. Only its own operations may touch what
// it allocates: a host access to device memory ends the test.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <memory>

#include "io/memory.h"
#include "kernels/forwarding_backend.h"

namespace sluice::test {

class DeviceLike final : public ForwardingBackend {
 public:
    explicit DeviceLike(uint64_t bytes, int threads = 1)
        : ForwardingBackend(std::move(*make_cpu_backend({.threads = threads}))) {
        auto memory = PageBuffer::create(bytes, "a device in a test");
        REQUIRE(memory);
        memory_ = std::move(*memory);
        arena_ = Arena(memory_.span());
        after();
    }

    std::string name() const override { return "device-like " + ForwardingBackend::name(); }
    bool host_memory() const override { return false; }
    uint64_t memory_limit() const override { return arena_.size() - arena_.used(); }
    Result<std::byte*> allocate(size_t bytes, std::string_view purpose) override {
        std::byte* at = arena_.take(bytes, 256);
        if (at) return at;
        return fail(Code::no_memory, std::string(purpose) + " does not fit the test's device");
    }
    Result<std::byte*> allocate_shared(size_t bytes, std::string_view purpose) override {
        return ForwardingBackend::allocate(bytes, purpose);
    }
    Counters counters() const override {
        Counters c;
        c.launches = 1;
        c.downloads = downloads_;
        c.upload_s = upload_s_;
        return c;
    }
    Result<void> download(void* host, const void* device, size_t bytes) override {
        ++downloads_;
        return ForwardingBackend::download(host, device, bytes);
    }
    void upload_beside(void* device, const void* host, size_t bytes) override {
        upload_s_ += static_cast<double>(bytes) / 14e9;
        ForwardingBackend::upload_beside(device, host, bytes);
    }

 protected:
    void before() override { ::mprotect(memory_.data(), memory_.size(), PROT_READ | PROT_WRITE); }
    void after() override { ::mprotect(memory_.data(), memory_.size(), PROT_NONE); }

 private:
    PageBuffer memory_;
    Arena arena_;
    uint64_t downloads_ = 0;
    double upload_s_ = 0;
};

}  // namespace sluice::test
