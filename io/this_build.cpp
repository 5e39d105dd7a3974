#include "io/this_build.h"

#include "io/checksum.h"
#include "io/file.h"

// Set by the build for this file alone.
#ifndef SLUICE_VERSION
#error "the build does not say which version this is"
#endif

namespace sluice {

namespace {

constexpr uint64_t binary_max = 1ull << 30;

}  // namespace

std::string_view build_version() {
    return SLUICE_VERSION;
}

std::string_view build_commit() {
    return SLUICE_COMMIT;
}

Result<uint64_t> executable_checksum() {
    auto binary = read_text("/proc/self/exe", binary_max);
    if (!binary) return within("this executable", binary.error());
    return checksum(binary->data(), binary->size());
}

}  // namespace sluice
