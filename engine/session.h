// One sequence of tokens over a loaded engine. Not thread safe: one thread calls it, except that
// the flag of set_cancel() may be set by any thread or signal handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/probe.h"
#include "engine/stats.h"
#include "io/error.h"

namespace sluice {

class Engine;

// Receives snapshots of states that a feed passed, in order of their positions.
using CheckpointReceiver = std::function<void(int32_t position, std::vector<std::byte> snapshot)>;

// Which experts the caches hold, for pictures; those that only pass through, as in a prompt, are
// not among them. places[layer * experts + expert]: 0, only on the
// drive; in_ram and in_vram, or both added. The embedding's rows are not among them.
struct CachedExperts {
    static constexpr uint8_t in_ram = 1, in_vram = 2;
    int32_t layers = 0, experts = 0;
    std::vector<uint8_t> places;
};

class Session {
 public:
    ~Session();
    // Feeds ids at the current position and returns the logits [vocab] of the last one, valid until
    // the next call. More ids than settings().chunk are fed in chunks, in groups that go through
    // each layer before the next one where that reads fewer experts
    // (engine/forward/chunked_prompt.h). `each` (may be empty) receives the logits of every
    // position. After an error (interrupted, io, numerical) position and state are what they were
    // before the call.
    Result<std::span<const float>> feed(
        std::span<const int32_t> ids,
        const std::function<void(int32_t position, std::span<const float>)>& each = {});
    // Like feed(), but returns only the id of the best logit of the last position, the lowest among
    // equals. Logits that are computed on a device are not copied from it.
    Result<int32_t> feed_best(std::span<const int32_t> ids);
    int32_t position() const;
    const std::vector<int32_t>& tokens() const;  // all fed so far
    // Cuts the session to a prefix of `ids` without the last one: as much of the common prefix as
    // the state allows, else nothing. Returns how many tokens were kept; feed() the rest.
    Result<int32_t> rewind_to_prefix(std::span<const int32_t> ids);
    void reset();
    // Snapshots (engine/snapshot/snapshot_file.h): everything that the next token depends on, to a
    // file or to bytes, and back into any session of the same model, build, kind of device and
    // index keys; context, chunk, budgets and caches may differ. The logits of every token fed
    // after restore() are bit for bit those of the session that was saved.
    //
    // save() writes the whole file or leaves what was there (usage, io). restore() fails, and the
    // session stays as it was: corrupt (no snapshot, damaged, cut short), unsupported (made by
    // another model, build, kind of device or index keys, or of a newer format), usage (longer than
    // the context), not_found, io. Only an error of the device while the state is uploaded leaves
    // an empty session.
    Result<void> save(const std::filesystem::path& file) const;
    Result<void> restore(const std::filesystem::path& file);
    Result<std::vector<std::byte>> snapshot() const;
    Result<void> restore(std::span<const std::byte> snapshot);
    // The bytes of a snapshot after so many tokens, without its header of a few KiB.
    uint64_t snapshot_bytes(int32_t tokens) const;
    // 16 hex digits that are the same for all sessions that can restore each other's snapshots.
    Result<std::string> snapshot_kind() const;
    // Snapshots on the way: from now on, a feed that passes one of these positions (tokens from the
    // start of the sequence; its own last token counts) hands the receiver the snapshot() that a
    // session fed only that far would give. Chunks, groups and reads stay as they are; a checkpoint
    // costs one copy of the windows while it waits (5 MiB for V4.1-Flash), and the snapshot. They
    // come after each chunk or chunk group; those of a group that fails or is stopped do not come,
    // those received before remain good. With IndexKeys::reference, whose results depend on where
    // a prompt is cut, there are none. No positions: none.
    void set_checkpoints(std::vector<int32_t> positions, CheckpointReceiver receive);
    // Null: none. Feeding stops with Code::interrupted when the flag becomes true.
    void set_cancel(const std::atomic<bool>* cancel);
    void set_probe(Probe* probe);  // null: none; with one there are no chunk groups
    // Receives the share of a feed that is done, measured in layers, 0..1.
    void set_progress(std::function<void(double done)> progress);
    const RunStats& stats() const;
    void clear_stats();
    // With EngineOptions::warm_start: reads experts that the last run kept, while the caller has
    // nothing else to do; never blocks. Whether more are left: call it again in a millisecond or
    // two. Between layers of a feed they are read, too, where drives have nothing else to do.
    Result<bool> warm_up();
    // With EngineOptions::warm_start: remembers what is in RAM and VRAM for the next run. Call it
    // at the end, and now and then in a run that may be killed; costs a few small reads. False if
    // it cannot be kept.
    bool remember_experts() const;
    // What is cached now; on a device without memory of its own nothing is in VRAM. Costs a lookup
    // or two for every expert of the model, less than a millisecond.
    CachedExperts cached_experts() const;
    // Call it at the end: completes the file of --record-routes. An io error if it could not be
    // written.
    Result<void> keep_routes();
    // Call it after an answer. Code::corrupt if the content of a model file changed since it was
    // opened.
    Result<void> files_unchanged() const;

    struct Impl;

 private:
    friend class Engine;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
