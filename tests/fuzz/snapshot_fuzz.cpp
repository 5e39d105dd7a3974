// libFuzzer target: any bytes as a snapshot. What its header is accepted with must be true of the
// bytes. The first byte says whether the checksum of the header is put right, which no mutation
// would hit on.
// tests/dev/fuzz.sh builds and runs it.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "engine/prompt_cache/snapshot_key.h"
#include "engine/snapshot/snapshot_file.h"
#include "io/checksum.h"

namespace {

void require(bool truth) {
    if (!truth) std::abort();
}

void check_message(const sluice::Error& error) {
    require(!error.message.empty());
    require(error.message.find_first_of("\n\x1b") == std::string::npos);
}

void put_checksum_right(std::vector<std::byte>& bytes) {
    uint32_t length = 0;
    if (bytes.size() < 24) return;
    std::memcpy(&length, bytes.data() + 12, sizeof(length));
    if (length < 24 || length > bytes.size()) return;
    const uint64_t sum = sluice::checksum(bytes.data(), length - 8);
    std::memcpy(bytes.data() + length - 8, &sum, sizeof(sum));
}

// The promises of read_snapshot_header().
void check(const sluice::SnapshotHeader& header, uint64_t size) {
    require(header.bytes == size);
    require(header.position >= 0);
    uint64_t end = header.sections.empty() ? size : header.sections.front().offset;
    for (const sluice::SnapshotSection& section : header.sections) {
        require(section.offset == end);
        require(section.bytes <= size - end);
        end += section.bytes;
    }
    require(end == size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    std::vector<std::byte> bytes(size - 1);
    if (size > 1) std::memcpy(bytes.data(), data + 1, size - 1);
    if ((data[0] & 1) != 0) put_checksum_right(bytes);
    const auto header = sluice::read_snapshot_header(bytes, bytes.size());
    if (!header) {
        check_message(header.error());
        return 0;
    }
    check(*header, bytes.size());
    if (auto sound = sluice::check_sections(*header, bytes); !sound) check_message(sound.error());
    if (auto fits = sluice::check_layout(*header, {}); !fits) check_message(fits.error());
    sluice::SnapshotIdentity own;
    if (auto same = sluice::check_identity(header->identity, own); !same) {
        check_message(same.error());
    }
    const std::vector<int32_t> ids(static_cast<size_t>(header->position % 100));
    (void)sluice::holds_ids(bytes, ids);
    return 0;
}
