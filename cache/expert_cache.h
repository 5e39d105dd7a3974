// ExpertCache: the experts in RAM. Which are resident, which are being read, and which are evicted.
//
//   demand(layer, ids)  ->  next() x ids.size(), hits first, then as reads arrive  ->  compute  ->
//   release()
//
// Each handle names slot, key and generation, and they are checked at the point of use: a slot that
// does not hold the expert is an Error, never a wrong pointer. A slot is reused only after its last
// release(). Debug builds fill freed slots with 0xff (scale bytes 255: NaN in the logits).
//
// Two kinds of slots: `cache_slots` managed by the policy, `transit_slots` that experts pass
// through (cache off, prompts, prefetch). A decode demand reads into a cache slot, evicting by
// policy; a prompt fills only cache slots that never held anything and otherwise passes through
// transit slots, so it does not displace the experts that decode keeps. A prefetch reads into a
// transit slot and moves to the cache when it is used (slots change their role, bytes are not
// copied). Cache slots that hold nothing yet serve as transit slots. What a slot holds never
// affects results.
//
// The chunks of one prompt may form a chunk group, which shares its reads: between
// begin_chunk_group() and end_chunk_group(), all of them pass a layer before the next layer begins.
// Meanwhile the cache lends up to a layer's worth of its slots as transit slots; as many experts
// stay there until the last chunk has passed the layer. With room for a second layer's worth, the
// next layer can be read in the meantime.
//
// Evictions are decided inside demand(), in the order requested, and inside begin_chunk_group().
// Neither drive timing nor prefetching affects them, so the simulator replays them exactly.
//
// Engine thread only. No allocation after construction.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cache/policy.h"
#include "cache/stats.h"
#include "io/checkpoint/expert_reader.h"

namespace sluice {

// Optimised builds do not spend memory bandwidth on poisoning unless asked.
#if defined(__SANITIZE_ADDRESS__) || (!defined(__OPTIMIZE__) && !defined(NDEBUG))
inline constexpr bool poison_default = true;
#else
inline constexpr bool poison_default = false;
#endif

struct ExpertCacheOptions {
    uint32_t cache_slots = 0;    // 0: cache off
    uint32_t transit_slots = 8;  // at least 2
    std::string policy = default_policy;
    uint64_t seed = 0;
    bool poison = poison_default;  // fill freed slots with 0xff
};

struct ExpertHandle {
    ExpertKey key;
    uint32_t slot = 0;
    uint64_t generation = 0;
};

enum class DemandKind { decode, prompt };

class ExpertCache {
 public:
    // `memory`: (cache_slots + transit_slots) * map.slot_bytes(), page aligned, already added to
    // the read ring.
    static Result<std::unique_ptr<ExpertCache>> create(const ExpertCacheOptions& options,
                                                       const ExpertMap& map, ReadRing& ring,
                                                       std::span<std::byte> memory);
    ~ExpertCache();

    // The distinct experts that this layer needs, in router order (decode) or in any order (prompt:
    // they are read in file order). Requires the last demand to be finished: every expert returned
    // by next() and released.
    // `more`: another chunk of the chunk group will come to this layer. `first`: those among the
    // resident ones that next() gives before the others; has no other effect.
    Result<void> demand(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
                        bool more = false, std::span<const int32_t> first = {});

    // The next expert that is ready; waits for the drive if none is. A failed read is an Error that
    // names shard and drive; the rest of the demand is then abandoned, and the cache can serve a
    // new one. If the caller holds all transit slots, the result is an Error, not a deadlock.
    Result<ExpertHandle> next();
    // Whether next() would return at once.
    bool ready() const;
    // Waits until everything in the demand for which there are slots is read. Failures are reported
    // by next().
    Result<void> wait_for_reads();
    // Start of the slot; fails (device) if it no longer holds handle.key in that generation.
    Result<const std::byte*> bytes(const ExpertHandle& handle) const;
    // To be called once per handle. A handle that is not held (released before, or taken back by
    // abandon()) is ignored.
    void release(const ExpertHandle& handle);
    // Gives up the rest of the demand (the user stopped): waits for its reads in flight and takes
    // all handles back. The caller's device work on them must be over.
    void abandon();

    // Whether this many chunks read less as a chunk group than one after another.
    bool chunk_group_pays(uint32_t chunks) const;
    // Requires the last demand to be finished. Lends the cache entries that hold nothing, then the
    // policy's victims; end_chunk_group() returns them empty.
    Result<void> begin_chunk_group(uint32_t chunks);
    void end_chunk_group();
    // Whether a chunk group can keep all experts of a layer.
    bool keeps_layer() const;

    // Guesses for a later layer, best first. Reads up to `count` of those not resident, behind all
    // demand reads and into transit slots beyond those that a demand may need. Never evicts from
    // the cache. With count 0 the guesses are only judged (stats). A drive gets no more prefetches
    // than it is expected to finish before the next demand, according to past decode steps; what is
    // left of a wrong one by then is not read. `known`: no guesses but what the layer will ask for,
    // so they are not judged.
    void prefetch(int32_t layer, std::span<const int32_t> guesses, uint32_t count,
                  bool known = false);
    // Announces a prompt's demand for nearly all of `experts` in `layer` (other than the last
    // demand's). The missing ones are read in file order, behind the running demand's reads, as far
    // as slots are free, so that the drives stay busy while layers are computed. Replaces the last
    // announcement. What the next demand does not ask for is dropped; in a chunk group, what the
    // layer's last chunk does not ask for.
    void read_ahead(int32_t layer, std::span<const int32_t> experts);
    // Reads `keys`, most valuable first, into entries that hold nothing, whenever the drives have
    // no other work (warm_up.h). From then on hits and evictions depend on timing.
    void warm_up(std::span<const ExpertKey> keys);
    // Lets a warm-up progress while no demand is expected; never blocks. Whether there is more to
    // read: call it again in a millisecond or two.
    Result<bool> go_on_warming_up();
    // What the cache keeps, the expert that decode used last first.
    std::vector<ExpertKey> by_recency() const;
    // Lets reads progress; call between pieces of compute.
    Result<void> pump();
    // To be called after every forward pass: a decode step or a chunk of a prompt. For a chunk
    // group: once per chunk, after the last one.
    void token_passed();

    bool resident(ExpertKey key) const;
    // Whether a cache entry holds it: of what is resident, not what only passes through.
    bool kept(ExpertKey key) const;
    const CacheStats& stats() const;
    uint64_t bytes_from(uint32_t drive) const;  // expert bytes read from this drive
    uint32_t cache_slots() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    explicit ExpertCache(std::unique_ptr<Impl> impl);
};

}  // namespace sluice
