// libFuzzer target: any bytes as a shard. What the reader accepts must be true of the bytes.
// tests/dev/fuzz.sh builds and runs it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "io/checkpoint/safetensors.h"

namespace {

// The promises of read_safetensors_header.
void check(const sluice::SafetensorsHeader& header, uint64_t file_bytes) {
    const auto require = [](bool truth) {
        if (!truth) std::abort();
    };
    uint64_t end = header.data_begin;
    std::set<std::string> names;
    for (const sluice::TensorEntry& entry : header.tensors) {
        require(entry.offset == end);
        require(names.insert(entry.name).second);
        uint64_t bytes = sluice::dtype_size(entry.dtype);
        for (const uint64_t extent : entry.shape) {
            if (extent == 0) bytes = 0;
        }
        for (const uint64_t extent : entry.shape) {
            require(bytes == 0 || extent <= file_bytes);
            bytes *= extent;
        }
        require(bytes == entry.bytes);
        require(entry.bytes <= file_bytes - end);
        end += entry.bytes;
    }
    require(end == file_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
    auto file = sluice::File::open("/proc/self/fd/" + std::to_string(fd), sluice::Access::buffered);
    if (!file) std::abort();
    const auto header = sluice::read_safetensors_header(*file);
    if (header) {
        check(*header, size);
    } else if (header.error().message.empty() ||
               header.error().message.find_first_of("\n\x1b") != std::string::npos) {
        std::abort();
    }
    close(fd);
    return 0;
}
