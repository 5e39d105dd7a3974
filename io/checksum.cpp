#include "io/checksum.h"

#include <xxhash.h>

#include "io/format.h"

namespace sluice {

struct Checksum::Impl {
    XXH3_state_t* state = XXH3_createState();
    ~Impl() { XXH3_freeState(state); }
};

uint64_t checksum(const void* data, size_t bytes) {
    return XXH3_64bits(data, bytes);
}

std::string checksum_text(uint64_t value) {
    return formatted("{:016x}", value);
}

Checksum::Checksum() : impl_(std::make_unique<Impl>()) {
    XXH3_64bits_reset(impl_->state);
}

Checksum::~Checksum() = default;

void Checksum::add(const void* data, size_t bytes) {
    if (bytes != 0) XXH3_64bits_update(impl_->state, data, bytes);
}

uint64_t Checksum::value() const {
    return XXH3_64bits_digest(impl_->state);
}

}  // namespace sluice
