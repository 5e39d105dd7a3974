// The experts in RAM: which are resident, which are on their way, who leaves.
//
//   demand(layer, ids)  ->  next() x ids.size(), hits first, then as reads arrive  ->  compute  ->
//   release()
//
// Each handle names slot, key and generation, checked at the point of use: a slot that does not
// hold the expert asked for is an Error, never some pointer. A slot is reused only after its last
// release(). Debug builds fill freed slots with 0xff (scale bytes 255: NaN in the logits).
//
// Two kinds of slots: `cache_slots` managed by the policy, `transit_slots` that experts pass
// through (cache off, prompts, prefetch). A decode demand reads into a cache slot, evicting by
// policy; a prompt fills only cache slots that never held anything and otherwise passes through
// transit slots, so it does not displace the experts that decode keeps. A prefetch reads into a
// transit slot and moves to the cache when it is used (slots change their role, bytes are not
// copied). Cache slots that hold nothing yet serve as transit slots. What a slot holds decides
// nothing about results.
//
// The chunks of one prompt may form a chunk group, which shares its reads: between
// begin_chunk_group() and end_chunk_group(), all of them pass a layer before the next layer begins.
// Meanwhile the cache lends a layer's worth of its slots, or as many as it has, as transit slots,
// where as many experts stay until the last chunk has passed the layer; if there is room for a
// second layer's worth, the next layer can be read meanwhile.
//
// Who is evicted is settled inside demand(), in the order asked and whatever the drive does, and
// prefetching changes none of it: the simulator replays it exactly.
//
// Engine thread only. No allocation after construction.
#pragma once

#include <memory>
#include <span>

#include "cache/policy.h"
#include "cache/stats.h"
#include "io/checkpoint/expert_reader.h"

namespace sluice {

// An optimised build does not spend memory bandwidth on it unless asked.
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
    // the ring.
    static Result<std::unique_ptr<ExpertCache>> create(const ExpertCacheOptions& options,
                                                       const ExpertMap& map, ReadRing& ring,
                                                       std::span<std::byte> memory);
    ~ExpertCache();

    // The distinct experts this layer needs, in router order (decode) or any order (sweep: read in
    // file order). Requires the last demand to be finished: every expert returned by next() and
    // released.
    // `more`: of chunks that share their reads, another one comes to this layer. `first`: of those
    // that are there, the ones that next() gives before the others; it changes nothing else.
    Result<void> demand(int32_t layer, std::span<const int32_t> experts, DemandKind kind,
                        bool more = false, std::span<const int32_t> first = {});

    // The next expert that is ready; blocks on the drive if none is. A failed read is an Error that
    // names shard and drive; the rest of the demand is then abandoned, and the cache stays usable
    // for a new one. Without free transit slots because the caller holds them all: an Error, not a
    // deadlock.
    Result<ExpertHandle> next();
    // Whether next() has one at hand.
    bool ready() const;
    // Blocks until all of the demand that has room is read; next() tells of failures.
    Result<void> wait_for_reads();
    // Base of the slot; fails (device) if it no longer holds handle.key in that generation.
    Result<const std::byte*> bytes(const ExpertHandle& handle) const;
    // Every handle once; a handle that is not held (again, or after abandon()) is ignored.
    void release(const ExpertHandle& handle);
    // Gives the rest of the demand up (the user stopped): waits for its reads in flight and takes
    // every handle back. The caller's device work on them must be over.
    void abandon();

    // Whether sharing their reads lets so many chunks read less.
    bool chunk_group_pays(uint32_t chunks) const;
    // Requires what demand() does. The cache entries lent are those that hold nothing, then the
    // policy's victims; they come back empty.
    Result<void> begin_chunk_group(uint32_t chunks);
    void end_chunk_group();
    // Whether all experts of a layer can stay.
    bool keeps_layer() const;

    // Guesses for a layer to come, best first: starts reads of those not resident behind every
    // demand read, at most `count` a call, as transit slots become free beyond those a demand may
    // need. Never evicts from the cache. With count 0 the guesses are only judged (stats). A drive
    // is given no more of them than it delivers before the next demand, going by how long that took
    // in past decode steps; what a wrong one has not been read by then never is.
    void prefetch(int32_t layer, std::span<const int32_t> guesses, uint32_t count);
    // A sweep will come to `layer` (other than the last demand's) that needs nearly all of
    // `experts`: those that are not there are read in file order, behind this demand's reads, as
    // far as slots are free, so that the drive goes on while layers are computed. Takes the place
    // of the last call. What the next demand does not ask for is dropped; of chunks that share
    // their reads, what the last one of that layer does not ask for.
    void read_ahead(int32_t layer, std::span<const int32_t> experts);
    // Lets reads progress; call between pieces of compute.
    Result<void> pump();
    // After every forward pass: a decode step, or one chunk of a prompt; for chunks that share
    // their reads after the last one.
    void token_passed();

    bool resident(ExpertKey key) const;
    const CacheStats& stats() const;
    uint64_t bytes_from(uint32_t drive) const;  // of experts, read from it
    uint32_t cache_slots() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
    explicit ExpertCache(std::unique_ptr<Impl> impl);
};

}  // namespace sluice
