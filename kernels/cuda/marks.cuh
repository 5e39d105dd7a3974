// Points in streams: marks that order streams, and the time between two points. For backend.cu.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"
#include "io/text.h"

namespace sluice::cuda {

inline std::string meaning(cudaError_t error) {
    return cat(cudaGetErrorName(error), " (", int(error), "): ", cudaGetErrorString(error));
}

inline Result<void> check(cudaError_t error, std::string_view what) {
    if (error == cudaSuccess) return {};
    cudaGetLastError();
    return fail(Code::device, cat("CUDA: ", what, ": ", meaning(error)));
}

// Events that mark points in a stream, reused in turn: mark m lives in event m % size until m +
// size is recorded.
class Marks {
 public:
    Result<void> create() {
        for (auto& event : events_) {
            auto made = check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
            if (!made) return made;
        }
        return {};
    }
    ~Marks() {
        for (auto event : events_)
            if (event) cudaEventDestroy(event);
    }
    uint64_t record(cudaStream_t stream) {
        ++last_;
        cudaEventRecord(events_[last_ % events_.size()], stream);
        return last_;
    }
    // If a mark is so old that its event was reused, the event's new mark is later: waiting for
    // that one is enough.
    cudaEvent_t event(uint64_t mark) const { return events_[mark % events_.size()]; }
    // A failure counts as done; the next download reports it.
    bool done(uint64_t mark) const {
        return mark == 0 || cudaEventQuery(event(mark)) != cudaErrorNotReady;
    }

 private:
    std::array<cudaEvent_t, 256> events_{};
    uint64_t last_ = 0;
};

// Seconds between points in a stream, added up as they pass. Pairs of events are reused in turn; a
// pair that is needed again before its end has passed is not counted.
class Stopwatch {
 public:
    Result<void> create() {
        for (auto& pair : pairs_)
            for (auto& event : pair)
                if (auto made = check(cudaEventCreate(&event), "event"); !made) return made;
        return {};
    }
    ~Stopwatch() {
        for (auto& pair : pairs_)
            for (auto event : pair)
                if (event) cudaEventDestroy(event);
    }
    void begin(cudaStream_t stream) {
        if (running_) return;
        running_ = true;
        collect();
        if (last_ - first_ == pairs_.size()) ++first_;
        cudaEventRecord(pairs_[last_ % pairs_.size()][0], stream);
    }
    void end(cudaStream_t stream) {
        if (!running_) return;
        running_ = false;
        cudaEventRecord(pairs_[last_++ % pairs_.size()][1], stream);
    }
    void clear() {
        collect();
        seconds_ = 0;
    }
    double seconds() {
        collect();
        return seconds_;
    }

 private:
    void collect() {
        for (; first_ < last_; ++first_) {
            auto& [from, to] = pairs_[first_ % pairs_.size()];
            if (cudaEventQuery(to) != cudaSuccess) return;
            float ms = 0;
            if (cudaEventElapsedTime(&ms, from, to) == cudaSuccess) seconds_ += ms / 1e3;
        }
    }

    std::array<std::array<cudaEvent_t, 2>, 64> pairs_{};
    uint64_t first_ = 0, last_ = 0;  // not collected yet
    bool running_ = false;
    double seconds_ = 0;
};

}  // namespace sluice::cuda
