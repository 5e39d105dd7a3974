// What the cases of the self-test share: seeded data, and one way to hand operands to the reference
// or to a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/selftest/selftest.h"

namespace sluice::selftest_detail {

class Random {
 public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ * 0x2545f4914f6cdd1dull;
    }
    float uniform() { return float(next() >> 40) / 16777216.0f; }
    float normal() {  // close enough: twelve uniform numbers
        float sum = -6.0f;
        for (int i = 0; i < 12; ++i) sum += uniform();
        return sum;
    }
    std::vector<float> floats(size_t n, float scale = 1.0f) {
        std::vector<float> v(n);
        for (auto& x : v) x = normal() * scale;
        return v;
    }
    std::vector<bf16> halves(size_t n, float scale = 1.0f) {
        std::vector<bf16> v(n);
        for (auto& x : v) x = to_bf16(normal() * scale * (next() % 64 ? 1.0f : 16.0f));
        return v;
    }
    std::vector<uint8_t> bytes(size_t n, uint8_t low = 0, uint8_t high = 255) {
        std::vector<uint8_t> v(n);
        for (auto& x : v) x = uint8_t(low + next() % (high - low + 1));
        return v;
    }
    std::vector<uint8_t> e4m3(size_t n) {
        auto v = bytes(n);
        for (auto& x : v)
            if ((x & 0x7f) == 0x7f) x ^= 1;
        return v;
    }

 private:
    uint64_t state_;
};

// Operands in host memory, operations computed by the reference.
class HostPlace {
 public:
    template <class T>
    T* in(const std::vector<T>& values) {
        auto& copy = store_.emplace_back(values.size() * sizeof(T) + 1);
        std::memcpy(copy.data(), values.data(), values.size() * sizeof(T));
        return reinterpret_cast<T*>(copy.data());
    }
    template <class T>
    T* out(size_t count) {
        return reinterpret_cast<T*>(
            store_.emplace_back(count * sizeof(T) + 1, std::byte{0xff}).data());
    }
    template <class T>
    T* shared(const std::vector<T>& values) {
        return in(values);
    }
    template <class Op>
    void run(const Op& op) {
        backend_.run(op);
    }
    template <class Chain>
    void run_parts(const Chain& op) {
        backend_.run(op);
    }
    template <class T>
    void fetch(std::vector<std::byte>& to, const T* from, size_t count) {
        auto* bytes = reinterpret_cast<const std::byte*>(from);
        to.insert(to.end(), bytes, bytes + count * sizeof(T));
    }

 private:
    ReferenceBackend backend_;
    std::deque<std::vector<std::byte>> store_;
};

// Operands on the device, in one area that every run fills from its beginning.
class DevicePlace {
 public:
    DevicePlace(Backend& backend, Arena& area) : backend_(backend), area_(area) {}

    template <class T>
    T* in(const std::vector<T>& values) {
        T* to = take<T>(values.size());
        if (to && !values.empty()) backend_.upload(to, values.data(), values.size() * sizeof(T));
        return to;
    }
    template <class T>
    T* out(size_t count) {
        std::vector<std::byte> poison(count * sizeof(T), std::byte{0xff});
        T* to = take<T>(count);
        if (to) backend_.upload(to, poison.data(), poison.size());
        return to;
    }
    template <class T>
    T* shared(const std::vector<T>& values) {
        return in(values);
    }
    template <class Op>
    void run(const Op& op) {
        if (!full_) backend_.run(op);
    }
    // A composed operation as the sum of its parts.
    template <class Chain>
    void run_parts(const Chain& op) {
        if (!full_) backend_.Backend::run(op);
    }
    template <class T>
    void fetch(std::vector<std::byte>& to, const T* from, size_t count) {
        size_t at = to.size();
        to.resize(at + count * sizeof(T));
        if (full_) return;
        auto done = backend_.download(to.data() + at, from, count * sizeof(T));
        if (!done) error_ = done.error();
    }
    std::optional<Error> error() const {
        if (full_)
            return Error{Code::no_memory, "self-test: operands do not fit into the device area"};
        return error_;
    }

 private:
    template <class T>
    T* take(size_t count) {
        auto* at = area_.take(count * sizeof(T) + 1, 256);
        full_ |= at == nullptr;
        return reinterpret_cast<T*>(at);
    }
    Backend& backend_;
    Arena& area_;
    bool full_ = false;
    std::optional<Error> error_;
};

// The type of a case's output, for comparing.
enum class Values { bits, halves, floats };

// One operation. The functions fill `out` with the operation's output for n rows, row by row, so
// that the output of fewer rows is a prefix of the output of more.
struct Case {
    std::string name;
    Values values;
    double limit;  // nmse; 0: every bit
    int32_t rows_max;
    bool rowwise;  // output row i depends only on input rows up to i
    std::function<void(HostPlace&, int32_t n, std::vector<std::byte>& out)> reference;
    std::function<void(DevicePlace&, int32_t n, std::vector<std::byte>& out)> device;
};

template <class Run>
Case make_case(std::string name, Values values, double limit, int32_t rows_max, Run run) {
    return {std::move(name), values, limit, rows_max, true, run, run};
}

// Appends the codes and scales of n rows, row by row.
void fetch_quantised(auto& place, const QuantRows& rows, int32_t n, int32_t cols,
                     std::vector<std::byte>& out) {
    std::vector<std::byte> codes, scales;
    place.fetch(codes, rows.codes, size_t(n) * cols);
    place.fetch(scales, rows.scales, size_t(n) * (cols / 32));
    for (int32_t i = 0; i < n; ++i) {
        out.insert(out.end(), codes.begin() + i * cols, codes.begin() + (i + 1) * cols);
        out.insert(out.end(), scales.begin() + i * (cols / 32),
                   scales.begin() + (i + 1) * (cols / 32));
    }
}

std::vector<Case> dense_cases();
std::vector<Case> sparse_cases();
std::vector<Case> chain_cases();

RopeTable rope_of(auto& place, int32_t count, int32_t half) {
    std::vector<float> cosines, sines;
    for (int32_t p = 0; p < count; ++p)
        for (int32_t i = 0; i < half; ++i) {
            float angle = float(p) * std::pow(10000.0f, -float(i) / float(half));
            cosines.push_back(float(std::cos(double(angle))));
            sines.push_back(float(std::sin(double(angle))));
        }
    return {place.in(cosines), place.in(sines), 0, count, half};
}

}  // namespace sluice::selftest_detail
