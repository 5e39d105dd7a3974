#include "io/mirror.h"

#include "io/model_folder.h"
#include "io/text.h"

namespace sluice {

namespace {

std::string shown(const std::filesystem::path& path) {
    return printable(path.string());
}

// How `copy` is no copy of the shard, or empty. Fails as reading does.
Result<std::string> difference(const MirroredShard& shard, const File& copy) {
    if (copy.size() != shard.file->size()) {
        return cat(copy.size(), " bytes, not ", shard.file->size());
    }
    std::string one(shard.header_bytes, '\0'), other(shard.header_bytes, '\0');
    if (auto read = shard.file->read(0, one.data(), one.size()); !read) {
        return tl::unexpected(std::move(read).error());
    }
    if (auto read = copy.read(0, other.data(), other.size()); !read) {
        return tl::unexpected(std::move(read).error());
    }
    return std::string(one == other ? "" : "the headers differ");
}

Result<std::string> open_mirror(const std::string& location, std::span<const MirroredShard> shards,
                                Access access, uint32_t drive,
                                std::vector<std::vector<File>>& copies) {
    auto folder = find_model_folder(location, "");
    if (!folder) return tl::unexpected(std::move(folder).error());
    size_t found = 0;
    size_t same = 0;  // links to the model's own files: no second drive, except a paced one
    for (size_t i = 0; i < shards.size(); i++) {
        const auto path = folder->path / shards[i].name;
        std::error_code ignored;
        if (!std::filesystem::exists(path, ignored)) continue;
        auto copy = File::open(path, access);
        if (!copy) return tl::unexpected(std::move(copy).error());
        auto differs = difference(shards[i], *copy);
        if (!differs) return tl::unexpected(std::move(differs).error());
        if (!differs->empty()) {
            return fail(Code::corrupt,
                        cat(shown(path), " is no copy of ", shown(shards[i].file->path()), ": ",
                            *differs, "; copy it again, or leave it out of the mirror"));
        }
        found++;
        if (copy->identity() == shards[i].file->identity()) same++;
        copy->set_drive(drive);
        copies[i].push_back(std::move(*copy));
    }
    if (found == 0) {
        return fail(Code::not_found, cat(shown(folder->path), ": none of the model's ",
                                         shards.size(), " shards is there"));
    }
    std::string note =
        cat("mirror ", shown(folder->path), ": ", found, " of ", shards.size(), " shards");
    if (same > 0) note += cat(", ", same, " of them the model's own files");
    return note;
}

}  // namespace

Result<Mirrors> open_mirrors(std::span<const std::string> locations,
                             std::span<const MirroredShard> shards, Access access,
                             uint32_t& drives) {
    Mirrors out;
    out.copies.resize(shards.size());
    for (const std::string& location : locations) {
        auto note = open_mirror(location, shards, access, drives++, out.copies);
        if (!note) return tl::unexpected(std::move(note).error());
        out.notes.push_back(std::move(*note));
    }
    return out;
}

}  // namespace sluice
