// A Backend that passes every call to another one: the base of backends that change only a part.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "kernels/backend.h"

namespace sluice {

class ForwardingBackend : public Backend {
 public:
    explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

    std::string name() const override { return inner_->name(); }
    bool host_memory() const override { return inner_->host_memory(); }
    Result<std::byte*> allocate(size_t bytes, std::string_view purpose) override {
        return inner_->allocate(bytes, purpose);
    }
    void upload(void* device, const void* host, size_t bytes) override {
        call([&](Backend& b) { b.upload(device, host, bytes); });
    }
    Result<void> download(void* host, const void* device, size_t bytes) override {
        return call([&](Backend& b) { return b.download(host, device, bytes); });
    }
    void copy(void* to, const void* from, size_t bytes) override {
        call([&](Backend& b) { b.copy(to, from, bytes); });
    }
    void copy_rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t bytes,
                   size_t rows) override {
        call([&](Backend& b) { b.copy_rows(to, to_pitch, from, from_pitch, bytes, rows); });
    }
    void fill_zero(void* device, size_t bytes) override {
        call([&](Backend& b) { b.fill_zero(device, bytes); });
    }
    Result<void> synchronize() override { return inner_->synchronize(); }
    void fetch(const void* device, size_t bytes) override {
        call([&](Backend& b) { b.fetch(device, bytes); });
    }
    Result<void> fetched(void* host) override {
        return call([&](Backend& b) { return b.fetched(host); });
    }
    void begin_repeat(int32_t tag) override { inner_->begin_repeat(tag); }
    Result<std::byte*> allocate_shared(size_t bytes, std::string_view purpose) override {
        return inner_->allocate_shared(bytes, purpose);
    }
    uint64_t memory_limit() const override { return inner_->memory_limit(); }
    uint64_t reserve_bytes(const Shapes& largest) const override {
        return inner_->reserve_bytes(largest);
    }
    Result<void> reserve(const Shapes& largest) override { return inner_->reserve(largest); }

    Result<void> pin(std::span<std::byte> host) override { return inner_->pin(host); }
    void upload_beside(void* device, const void* host, size_t bytes) override {
        call([&](Backend& b) { b.upload_beside(device, host, bytes); });
    }
    uint64_t mark_uploads() override { return inner_->mark_uploads(); }
    uint64_t mark_compute() override { return inner_->mark_compute(); }
    void compute_after_uploads(uint64_t mark) override { inner_->compute_after_uploads(mark); }
    void uploads_after_compute(uint64_t mark) override { inner_->uploads_after_compute(mark); }
    bool uploads_done(uint64_t mark) override { return inner_->uploads_done(mark); }
    bool compute_done(uint64_t mark) override { return inner_->compute_done(mark); }
    Result<void> wait_uploads(uint64_t mark) override { return inner_->wait_uploads(mark); }
    Counters counters() const override { return inner_->counters(); }
    void clear_counters() override { inner_->clear_counters(); }

#define SLUICE_FORWARD(Op)            \
    void run(const Op& op) override { \
        pass_on(op);                  \
    }
    SLUICE_OPS(SLUICE_FORWARD)
#undef SLUICE_FORWARD

 protected:
    // Called around every call that reads or writes device memory.
    virtual void before() {}
    virtual void after() {}
    Backend& inner() const {
        return *inner_;
    }

 private:
    struct Around {
        explicit Around(ForwardingBackend& owner) : owner(owner) { owner.before(); }
        ~Around() { owner.after(); }
        ForwardingBackend& owner;
    };
    template <class Call>
    std::invoke_result_t<Call, Backend&> call(Call what) {
        Around around(*this);
        return what(*inner_);
    }
    template <class Op>
    void pass_on(const Op& op) {
        call([&](Backend& b) { b.run(op); });
    }
    std::unique_ptr<Backend> inner_;
};

}  // namespace sluice
