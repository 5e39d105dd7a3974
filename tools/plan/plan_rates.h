// How fast the parts of this machine are: measured in a second or two each, given by the user, or
// assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/model/config.h"
#include "io/error.h"
#include "kernels/backend.h"

namespace sluice {

enum class Origin { measured, paced, given, assumed };  // paced: of a simulated drive
const char* origin_name(Origin origin);

// Kernels of one device, for matrices of the model's shapes.
struct KernelRates {
    double dense_bytes_s = 0;   // FP8 matrix, one row of activations
    double dense_macs_s = 0;    // the same, many rows
    double head_bytes_s = 0;    // BF16 matrix, one row
    double expert_bytes_s = 0;  // routed expert, one row
    double expert_macs_s = 0;   // the same, many rows
    double op_s = 0;            // a small operation, queued behind others
    double trip_s = 0;          // fetching a result and starting the next operation
    Origin origin = Origin::measured;
};

struct DriveRates {
    double layer_bytes_s = 0;   // one layer's experts requested and awaited, as in decode
    double stream_bytes_s = 0;  // kept busy, as in a prompt
    Origin origin = Origin::measured;
};

struct LinkRate {
    double bytes_s = 0;
    Origin origin = Origin::measured;
};

struct MachineRates {
    DriveRates drive;
    double copy_bytes_s = 0;  // memcpy by all threads: bytes copied
    KernelRates cpu;
    std::optional<KernelRates> gpu;  // with a GPU, real or assumed
    std::optional<LinkRate> link;
};

// `room` is how much RAM may be used; below measuring_room the CPU's caches hold much of what is
// measured. A few hundred KiB are used in any case.

constexpr uint64_t measuring_room = 256u << 20;
// Takes up to 200 MB of `backend`'s memory for weights; about 1.5 s.
Result<KernelRates> measure_kernels(Backend& backend, const ModelConfig& config, uint64_t room);
// Pinned host memory to the device.
Result<LinkRate> measure_link(Backend& backend, uint64_t room);
Result<double> measure_copy(int threads, uint64_t room);

// A GPU that is only assumed: half of 272 GB/s for one row, 10 T multiply-adds/s, 25 GB/s of link.
KernelRates assumed_gpu();
LinkRate assumed_link();
DriveRates assumed_drive();  // 7 GB/s

}  // namespace sluice
