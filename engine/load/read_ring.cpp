#include "engine/load/read_ring.h"

#include <algorithm>
#include <set>

#include "io/log.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint32_t depth_max = 4096;

}  // namespace

uint32_t drives_reported(const Checkpoint& checkpoint, const EngineOptions& options) {
    if (!options.paces.empty()) return checkpoint.drives();
    std::set<uint64_t> devices;
    for (size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
        devices.insert(checkpoint.shards()[shard].identity().device);
        for (const File& copy : checkpoint.copies()[shard]) devices.insert(copy.identity().device);
    }
    return static_cast<uint32_t>(devices.size());
}

Result<OpenedRing> open_read_ring(const Checkpoint& checkpoint, const EngineOptions& options) {
    const uint32_t drives = checkpoint.drives();
    if (options.paces.size() > 1 && options.paces.size() != drives) {
        return fail(
            Code::usage,
            cat("--io paced names ", options.paces.size(), " drives, but the model has ", drives,
                " (one per folder, mirrors last); a single rate applies to every drive"));
    }
    const uint32_t depth = std::min(depth_max, options.ring_depth * drives);
    auto choice = make_ring_engine({.engine = options.io, .depth = depth, .paces = options.paces});
    if (!choice) return tl::unexpected(choice.error());
    std::vector<const File*> files;
    for (size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
        files.push_back(&checkpoint.shards()[shard]);
        for (const File& copy : checkpoint.copies()[shard]) files.push_back(&copy);
    }
    OpenedRing opened;
    opened.direct = std::all_of(files.begin(), files.end(),
                                [](const File* file) { return file->access() == Access::direct; });
    opened.name = cat(choice->engine->name(), opened.direct ? ", O_DIRECT" : ", page cache");
    if (const uint32_t reported = drives_reported(checkpoint, options); reported > 1) {
        opened.name += cat(", ", reported, " drives");
    }
    if (options.paces.empty()) {
        for (const std::string& line : checkpoint.idle_mirrors()) log::warn_once(line, line);
    }
    if (!choice->cause.empty()) {
        opened.name += cat(" (", choice->cause, ")");
        log::warn_once(
            "ring", cat("reads use threads instead of io_uring, which is slower: ", choice->cause));
    }
    opened.ring = std::make_unique<ReadRing>(std::move(choice->engine), depth);
    for (const File* file : files) {
        if (auto added = opened.ring->add_file(*file); !added) return tl::unexpected(added.error());
    }
    for (size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
        std::vector<const File*> copies{&checkpoint.shards()[shard]};
        for (const File& copy : checkpoint.copies()[shard]) copies.push_back(&copy);
        if (copies.size() > 1) opened.ring->add_copies(copies);
    }
    return opened;
}

}  // namespace sluice
