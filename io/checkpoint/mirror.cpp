#include "io/checkpoint/mirror.h"

#include <algorithm>

#include "io/checkpoint/model_folder.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

std::string shown(const std::filesystem::path& path) {
    return printable(path.string());
}

constexpr uint64_t samples = 32, sample_bytes = 4096;

Result<bool> same_bytes(const File& one, const File& other, uint64_t offset, uint64_t length) {
    std::string a(length, '\0'), b(length, '\0');
    if (auto read = one.read(offset, a.data(), length); !read) {
        return tl::unexpected(std::move(read).error());
    }
    if (auto read = other.read(offset, b.data(), length); !read) {
        return tl::unexpected(std::move(read).error());
    }
    return a == b;
}

// How `copy` differs from the shard, or empty. Fails if either cannot be read.
Result<std::string> difference(const MirroredShard& shard, const File& copy) {
    const uint64_t size = shard.file->size();
    if (copy.size() != size) return cat("it has ", copy.size(), " bytes, not ", size);
    if (copy.identity() == shard.file->identity()) return std::string();
    auto same = same_bytes(*shard.file, copy, 0, shard.header_bytes);
    if (!same) return tl::unexpected(std::move(same).error());
    if (!*same) return std::string("the headers differ");
    // Samples spread over the tensors, including the last bytes.
    const uint64_t body = size - shard.header_bytes, length = std::min(body, sample_bytes);
    for (uint64_t i = 0; i < samples && length > 0; ++i) {
        const uint64_t at = shard.header_bytes + (body - length) / (samples - 1) * i;
        const uint64_t offset = i + 1 == samples ? size - length : at;
        same = same_bytes(*shard.file, copy, offset, length);
        if (!same) return tl::unexpected(std::move(same).error());
        if (!*same) return cat("bytes differ starting at offset ", offset);
    }
    return std::string();
}

// A drive here is a device: two folders of one file system are on one drive.
bool on_a_drive_of(const MirroredShard& shard, const std::vector<File>& copies, const File& copy) {
    const uint64_t device = copy.identity().device;
    return shard.file->identity().device == device ||
           std::any_of(copies.begin(), copies.end(),
                       [&](const File& other) { return other.identity().device == device; });
}

Result<void> open_mirror(const std::string& location, std::span<const MirroredShard> shards,
                         Access access, uint32_t drive, Mirrors& out) {
    auto folder = find_model_folder(location, "");
    if (!folder) return tl::unexpected(std::move(folder).error());
    size_t found = 0;
    size_t beside = 0;  // on a drive that already has the shard
    size_t same = 0;    // links to the model's own files: a second drive only if it is paced
    for (size_t i = 0; i < shards.size(); ++i) {
        const auto path = folder->path / shards[i].name;
        if (auto closed = no_permission(path)) return tl::unexpected(std::move(*closed));
        if (!is_there(path)) {
            if (!is_entry(path)) continue;
            return fail(Code::not_found, cat(shown(path), ": a link to a missing file; repair it, ",
                                             "or remove it from the mirror"));
        }
        auto copy = File::open(path, access);
        if (!copy) return tl::unexpected(std::move(copy).error());
        auto differs = difference(shards[i], *copy);
        if (!differs) return tl::unexpected(std::move(differs).error());
        if (!differs->empty()) {
            return fail(Code::corrupt,
                        cat(shown(path), " is not a copy of ", shown(shards[i].file->path()), ": ",
                            *differs, "; copy it again, or remove it from the mirror"));
        }
        ++found;
        if (copy->identity() == shards[i].file->identity()) ++same;
        if (on_a_drive_of(shards[i], out.copies[i], *copy)) ++beside;
        copy->set_drive(drive);
        out.copies[i].push_back(std::move(*copy));
    }
    if (found == 0) {
        return fail(Code::not_found,
                    cat(shown(folder->path), ": has none of the model's ", shards.size(),
                        " shards; name the folder that has them, or drop this mirror"));
    }
    std::string note =
        cat("mirror ", shown(folder->path), ": ", found, " of ", shards.size(), " shards");
    if (same > 0) note += cat(", ", same, " of them the model's own files");
    if (beside > 0) note += cat(", ", beside, " on a drive that has them already");
    out.notes.push_back(std::move(note));
    if (beside < found) return {};
    out.idle.push_back(cat("mirror ", shown(folder->path),
                           " is on a drive that already has these shards, so it makes reads no "
                           "faster; put the mirror on another drive"));
    return {};
}

}  // namespace

Result<Mirrors> open_mirrors(std::span<const std::string> locations,
                             std::span<const MirroredShard> shards, Access access,
                             uint32_t& drives) {
    Mirrors out;
    out.copies.resize(shards.size());
    for (const std::string& location : locations) {
        auto opened = open_mirror(location, shards, access, drives++, out);
        if (!opened) return tl::unexpected(std::move(opened).error());
    }
    for (size_t i = 0; i < shards.size(); ++i) {
        std::vector<File*> same{shards[i].file};
        for (File& copy : out.copies[i]) same.push_back(&copy);
        align_copies(same);
    }
    return out;
}

}  // namespace sluice
