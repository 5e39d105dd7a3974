// Prompts that are not read twice: snapshots of a session, found again by the tokens they follow.
//
//   resume(prompt)   the session becomes the longest prefix that it, memory or disk knows
//   watch(...)       the feed that follows leaves snapshots on its way
//   store()          the session as it is, such as at the end of an answer
//
// Several conversations alternate on one session without losing their state, and a new process
// continues where an old one stopped. Nothing here changes an answer: what is restored is bit for
// bit what reading the same tokens again would give. A snapshot is used only if its ids are exactly
// those of the prompt's beginning and all of its checksums are right; one that is damaged is
// removed with a warning, and the next best is used.
//
// With IndexKeys::reference, whose results depend on where a prompt is cut, only the session itself
// is used. Called by the session's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/prompt_cache/disk_snapshots.h"
#include "engine/prompt_cache/memory_snapshots.h"
#include "engine/prompt_cache/snapshot_writer.h"
#include "io/error.h"

namespace sluice {

struct PromptCacheOptions {
    std::filesystem::path folder;  // empty: in memory only
    uint64_t disk_bytes = 0;       // limit of the folder
};

enum class KeptBy { nothing, session, memory, disk };
const char* kept_by_name(KeptBy by);  // "disk"

struct Kept {
    int32_t tokens = 0;
    KeptBy by = KeptBy::nothing;
};

class PromptCache {
 public:
    // Memory is what the engine planned (Settings::prompt_cache_ram); with none of it, resume()
    // only rewinds the session, and nothing is stored. `session` outlives the cache.
    PromptCache(const Engine& engine, Session& session, const PromptCacheOptions& options);
    ~PromptCache();  // writes what is queued

    // Cuts the session to a prefix of `prompt` without its last token, or restores one that is
    // longer. Returns how much of it is there; feed() the rest. Errors are those of the device and
    // of Session::rewind_to_prefix().
    Result<Kept> resume(std::span<const int32_t> prompt);

    // Until the next call: feeding `prompt` stores the states at these positions, except those that
    // are stored already. No positions: none.
    void watch(std::span<const int32_t> prompt, std::vector<int32_t> positions);
    // The session's present state. A warning, once, if the device cannot give it.
    void store();

    void flush();  // returns when everything is on disk
    // In the way of what is stored: whether it may be stored at all.
    bool on() const { return memory_.bytes_max() > 0; }

    struct Counters {
        uint64_t from_memory = 0, from_disk = 0;  // restored
        uint64_t stored = 0;                      // in memory
        uint64_t written = 0;                     // to disk
        uint64_t dropped = 0;                     // for lack of room in memory or in the queue
        uint64_t damaged = 0;                     // and removed
    };
    Counters counters() const;

 private:
    struct Found {
        SharedSnapshot bytes;
        KeptBy by = KeptBy::nothing;
    };
    std::vector<SnapshotKey> stored() const;
    Found find(SnapshotKey key);
    SharedSnapshot read(SnapshotKey key);
    Result<bool> restore(SnapshotKey key, std::span<const int32_t> ids, KeptBy& by);
    void set_aside(SnapshotKey key, const Error& error);
    bool holds(SnapshotKey key);  // and marks it as used
    void put(SnapshotKey key, std::vector<std::byte> snapshot);

    Session& session_;
    MemorySnapshots memory_;
    std::optional<DiskSnapshots> disk_;
    std::unique_ptr<SnapshotWriter> writer_;  // null: no disk
    Counters counters_;
};

}  // namespace sluice
