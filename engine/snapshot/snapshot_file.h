// Snapshots: a sequence's state as bytes, in memory or in a file. This room knows the format and
// its checks; Session (engine/session.h) makes and restores them. Any thread.
//
// All numbers are little-endian:
//   8 bytes   "SLSNAPSH"
//   u32       format version, 1
//   u32       bytes of the header, from the first byte of the file to its checksum included
//   u64       bytes of the whole snapshot
//   u64       identity of the model (snapshot_identity.h)
//   u64       checksum of the executable that made it
//   3 texts   name of the model, version and commit of the build, kind of device ("cpu",
//             "cuda, compute 9.0"); each a u32 of bytes (at most 4096), then the bytes
//   u32       index keys: 0 own, 1 reference
//   u32       position: tokens fed
//   i32       layer whose index keys were published last, or -1; with own index keys always -1
//   u32       number of sections, at most 65536
//   a section u32 kind and i32 layer (StateKind and layer of a StatePart), u64 offset, u64 bytes,
//             u64 checksum
//   u64       checksum of the header up to here
//   sections  their bytes, in order, without gaps
// Every later version keeps the first 16 bytes, and the checksum at the end of the header.
// Checksums are XXH3 (io/checksum.h): they find damage, not forgery. The first section is the token
// ids, i32 each; the others are State::parts(). Nothing depends on the context or on budgets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/state.h"
#include "engine/options.h"
#include "io/error.h"

namespace sluice {

// What has to be equal where a snapshot is made and where it is restored, so that the tokens after
// it are the same bit for bit.
struct SnapshotIdentity {
    uint64_t model = 0;
    std::string model_name;  // for messages only
    uint64_t build = 0;
    std::string build_name;  // for messages only
    std::string device;      // device_kind()
    IndexKeys index_keys = IndexKeys::own;
};

// 16 hex digits: a checksum of what check_identity() compares, for names of files and folders.
std::string identity_text(const SnapshotIdentity& identity);

struct SnapshotSection {
    StateKind kind;
    int32_t layer;
    uint64_t offset, bytes, checksum;
};

struct SnapshotHeader {
    SnapshotIdentity identity;
    int32_t position = 0;
    int32_t published = -1;
    std::vector<SnapshotSection> sections;
    uint64_t bytes = 0;  // of the whole snapshot
};

using SnapshotBytes = std::vector<std::byte>;

// A whole snapshot. `fill` writes the contents of parts[i]; its error ends the packing.
Result<SnapshotBytes> pack_snapshot(
    const SnapshotIdentity& identity, int32_t published, std::span<const int32_t> ids,
    std::span<const StatePart> parts,
    const std::function<Result<void>(size_t i, std::span<std::byte> to)>& fill);

// The header of a snapshot of `size` bytes; `begin` are its first bytes, or all of it. Errors, one
// clause each: corrupt if it is no snapshot, is cut short or damaged; unsupported if the format is
// newer. The sections are in order, without gaps and inside `size`; what they hold is not looked
// at.
Result<SnapshotHeader> read_snapshot_header(std::span<const std::byte> begin, uint64_t size);

// unsupported if `made` (the snapshot's) is not `wanted` (this run's), naming both.
Result<void> check_identity(const SnapshotIdentity& made, const SnapshotIdentity& wanted);

// corrupt unless the sections are the ids and `parts`, those after header.position tokens.
Result<void> check_layout(const SnapshotHeader& header, std::span<const StatePart> parts);

// corrupt if the bytes of a section are not those that were written: names the section.
Result<void> check_sections(const SnapshotHeader& header, std::span<const std::byte> snapshot);

// Writes the whole file (mode 0600) or, after an error (usage, io), leaves what was there. An
// existing file is replaced only if it is empty or a snapshot.
Result<void> write_snapshot_file(const std::filesystem::path& path,
                                 std::span<const std::byte> snapshot);

// Reads the header, asks `accept`, then reads the rest; so a file that is not wanted takes no
// memory, whatever its size. Errors: those of read_snapshot_header() and of `accept`, not_found,
// usage for what is no regular file, io.
Result<SnapshotBytes> read_snapshot_file(
    const std::filesystem::path& path,
    const std::function<Result<void>(const SnapshotHeader&)>& accept);

}  // namespace sluice
