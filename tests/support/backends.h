// Every backend that this machine can run, and a way to give any of them the operands of an
// operation.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace sluice::test {

struct TestBackend {
    std::unique_ptr<Backend> backend;
    bool cpu;  // all CPU backends give the same bits

    Backend* operator->() const { return backend.get(); }
    std::string name() const { return backend->name(); }
};

// One for each instruction set x 1 and 2 threads, and one per CUDA device; new at every call.
inline std::vector<TestBackend> backends_present() {
    std::vector<TestBackend> all;
    for (CpuIsa isa : cpu_isas())
        for (int threads : {1, 2}) {
            auto backend = make_cpu_backend({isa, threads});
            REQUIRE(backend.has_value());
            all.push_back({std::move(*backend), true});
        }
    auto devices = cuda_devices();
    for (size_t i = 0; devices && i < devices->size(); ++i) {
        auto backend = make_cuda_backend({int(i), 2ull << 30});
        REQUIRE_MESSAGE(backend.has_value(), backend.error().message);
        Shapes largest;
        largest.n = 1024;
        largest.dim = 8192;
        largest.inner = 4096;
        largest.experts = 512;
        largest.index_rows = 1 << 16;
        largest.window = 512;
        largest.attended_rows = 4096;
        largest.head_dim = 512;
        largest.heads = 128;
        REQUIRE((*backend)->reserve(largest).has_value());
        all.push_back({std::move(*backend), false});
    }
    return all;
}

// Device copies of the operands of one operation. Outputs start as 0xff bytes, which are NaN as
// bf16, fp32, E4M3 and E8M0, so that a value that is not written shows.
class Operands {
 public:
    explicit Operands(const TestBackend& on) : backend_(*on.backend) {}

    template <class T>
    T* in(const std::vector<T>& values) {
        if (values.empty()) return nullptr;
        T* device = take<T>(values.size());
        backend_.upload(device, values.data(), values.size() * sizeof(T));
        return device;
    }
    template <class T>
    T* out(size_t count) {
        std::vector<T> poison(count);
        if (count > 0) std::memset(reinterpret_cast<void*>(poison.data()), 0xff, count * sizeof(T));
        return in(poison);
    }
    template <class T>
    std::vector<T> fetch(const T* device, size_t count) {
        std::vector<T> values(count);
        auto done = backend_.download(values.data(), device, count * sizeof(T));
        REQUIRE_MESSAGE(done.has_value(), done.error().message);
        return values;
    }

 private:
    // Host memory of the exact size, so that a sanitizer sees any access beyond it. Bytes are at
    // odd addresses, as in a shard.
    template <class T>
    T* take(size_t count) {
        if (backend_.host_memory()) {
            size_t offset = sizeof(T) == 1 ? 1 : 0;
            host_.push_back(std::make_unique<std::byte[]>(count * sizeof(T) + offset));
            return reinterpret_cast<T*>(host_.back().get() + offset);
        }
        auto memory = backend_.allocate(count * sizeof(T), "test operand");
        REQUIRE(memory.has_value());
        return reinterpret_cast<T*>(*memory);
    }
    std::vector<std::unique_ptr<std::byte[]>> host_;
    Backend& backend_;
};

inline float as_float(float x) {
    return x;
}
inline float as_float(bf16 x) {
    return to_float(x);
}
inline float as_float(uint8_t x) {
    return x;
}
inline float as_float(int32_t x) {
    return float(x);
}

// How many values differ in their bits; all NaNs are equal.
template <class T>
size_t differences(const std::vector<T>& a, const std::vector<T>& b) {
    size_t count = a.size() == b.size() ? 0 : a.size() + b.size();
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
        bool both_nan = std::isnan(as_float(a[i])) && std::isnan(as_float(b[i]));
        count += !both_nan && std::memcmp(&a[i], &b[i], sizeof(T)) != 0;
    }
    return count;
}

// Mean square error over mean square; infinite when NaNs or infinities are at different places.
template <class T>
double nmse(const std::vector<T>& got, const std::vector<T>& want) {
    if (got.size() != want.size()) return INFINITY;
    double error = 0, square = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        double g = as_float(got[i]), w = as_float(want[i]);
        if (std::isnan(g) != std::isnan(w) || (std::isinf(w) && g != w)) return INFINITY;
        if (!std::isfinite(w)) continue;
        error += (g - w) * (g - w);
        square += w * w;
    }
    return error == 0 ? 0 : error / square;
}

}  // namespace sluice::test
