#include "io/expert_reader.h"

#include <algorithm>
#include <cassert>

#include "io/memory.h"
#include "io/text.h"
#include "io/trace_spans.h"

namespace sluice {

ExpertMap::ExpertMap(int32_t layers, int32_t experts, const std::vector<File>& shards,
                     ExpertTuning tuning)
    : layers_(layers), experts_(experts), shards_(shards), tuning_(tuning) {
    assert(layers >= 0 && experts >= 0 && tuning.parts >= 1 && tuning.in_flight_max >= 1);
    entries_.resize(static_cast<size_t>(layers) * static_cast<size_t>(experts));
}

Result<void> ExpertMap::add(ExpertKey key, const std::array<const Tensor*, expert_parts>& parts) {
    assert(key.layer >= 0 && key.layer < layers_ && key.expert >= 0 && key.expert < experts_);
    Entry& entry = entries_[static_cast<size_t>(key.layer) * experts_ + key.expert];
    assert(!entry.file);
    const uint32_t shard = parts[0]->shard;
    for (const Tensor* part : parts) {
        if (part->bytes == 0) {
            return fail(Code::corrupt, cat("layer ", key.layer, ", expert ", key.expert,
                                           ": tensor \"", printable(part->name), "\" is empty"));
        }
        if (part->shard == shard) continue;
        return fail(Code::unsupported,
                    cat("layer ", key.layer, ", expert ", key.expert, ": its tensors \"",
                        printable(parts[0]->name), "\" and \"", printable(part->name),
                        "\" are in two files, ", printable(shards_[shard].path().string()), " and ",
                        printable(shards_[part->shard].path().string())));
    }
    // Planned in file order, so that neighbours in the file become one read whatever their role.
    std::array<uint32_t, expert_parts> order{0, 1, 2, 3, 4, 5};
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return parts[a]->offset < parts[b]->offset; });
    std::array<ByteRange, expert_parts> sorted;
    for (uint32_t i = 0; i < expert_parts; i++) {
        entry.ranges[i] = {parts[i]->offset, parts[i]->bytes};
        sorted[i] = {parts[order[i]]->offset, parts[order[i]]->bytes};
    }
    const File& file = shards_[shard];
    entry.plan = plan_reads(sorted, file.size(), file.alignment(), tuning_.parts, tuning_.part_min);
    std::vector<uint64_t> starts(expert_parts);
    for (uint32_t i = 0; i < expert_parts; i++) starts[order[i]] = entry.plan.starts[i];
    entry.plan.starts = std::move(starts);
    entry.file = &file;
    slot_bytes_ = std::max(slot_bytes_, round_up(entry.plan.bytes, page_size));
    return {};
}

const ExpertMap::Entry& ExpertMap::entry(ExpertKey key) const {
    assert(has(key));
    return entries_[static_cast<size_t>(key.layer) * experts_ + key.expert];
}

bool ExpertMap::has(ExpertKey key) const {
    return key.layer >= 0 && key.layer < layers_ && key.expert >= 0 && key.expert < experts_ &&
           entries_[static_cast<size_t>(key.layer) * experts_ + key.expert].file;
}

uint64_t ExpertMap::expert_bytes(ExpertKey key) const {
    uint64_t bytes = 0;
    for (const ByteRange& range : entry(key).ranges) bytes += range.length;
    return bytes;
}

const ReadPlan& ExpertMap::plan(ExpertKey key) const {
    return entry(key).plan;
}

const File& ExpertMap::file(ExpertKey key) const {
    return *entry(key).file;
}

ByteRange ExpertMap::range(ExpertKey key, ExpertPart part) const {
    return entry(key).ranges[part];
}

namespace {

struct Request {
    ExpertKey key;
    std::byte* slot;
};

// An expert that is being read. In `active_` in the order started.
struct Active {
    Request request;
    Urgency urgency;
    const File* file;
    const ReadPlan* plan;
    uint32_t id;             // tag of its reads
    uint32_t next = 0;       // of plan->reads, not queued yet
    uint32_t in_flight = 0;  // reads
    int64_t begin = spans::now();
    std::optional<Error> error = {};

    bool all_queued() const { return error || next == plan->reads.size(); }
};

}  // namespace

struct ExpertReader::Impl final : ReadClient {
    Impl(ReadRing& its_ring, const ExpertMap& its_map) : ring(its_ring), map(its_map) {
        demand.reserve(waiting_max());
        prefetch.reserve(waiting_max());
        // A promoted prefetch may be there beside the full number of demand reads.
        active.reserve(map.tuning().in_flight_max + 1);
        finished.reserve(waiting_max() + map.tuning().in_flight_max + 1);
    }

    void read_done(uint64_t tag, std::optional<Error> error) override;
    void start(const Request& request, Urgency urgency);
    void start_what_may();
    void queue_reads(Urgency urgency);
    void finish(size_t index);
    uint32_t active_of(Urgency urgency) const;

    ReadRing& ring;
    const ExpertMap& map;
    std::vector<Request> demand, prefetch;  // waiting, first asked first
    std::vector<Active> active;
    std::vector<Arrived> finished;  // not collected yet
    uint32_t reads_in_flight = 0;
    uint32_t next_id = 0;
    uint64_t bytes_read = 0;
};

uint32_t ExpertReader::Impl::active_of(Urgency urgency) const {
    return static_cast<uint32_t>(
        std::count_if(active.begin(), active.end(),
                      [&](const Active& expert) { return expert.urgency == urgency; }));
}

void ExpertReader::Impl::start(const Request& request, Urgency urgency) {
    active.push_back({request, urgency, &map.file(request.key), &map.plan(request.key), next_id++});
}

// Starts waiting experts within the rules, and queues the reads of all started ones while the ring
// has room.
void ExpertReader::Impl::start_what_may() {
    size_t begun = 0;
    for (uint32_t running = active_of(Urgency::demand);
         begun < demand.size() && running < map.tuning().in_flight_max; running++) {
        start(demand[begun++], Urgency::demand);
    }
    demand.erase(demand.begin(), demand.begin() + static_cast<ptrdiff_t>(begun));
    if (active.empty() && demand.empty() && !prefetch.empty()) {
        start(prefetch.front(), Urgency::prefetch);
        prefetch.erase(prefetch.begin());
    }
    queue_reads(Urgency::demand);
    // One that was overtaken goes on when demand has its bytes.
    if (demand.empty() && active_of(Urgency::demand) == 0) queue_reads(Urgency::prefetch);
}

void ExpertReader::Impl::queue_reads(Urgency urgency) {
    for (Active& expert : active) {
        if (expert.urgency != urgency) continue;
        while (ring.free() > 0 && !expert.all_queued()) {
            const PlannedRead& read = expert.plan->reads[expert.next++];
            expert.in_flight++;
            reads_in_flight++;
            ring.queue({expert.file, read.offset, expert.request.slot + read.to, read.length,
                        read.needed, this, expert.id});
        }
    }
}

void ExpertReader::Impl::finish(size_t index) {
    Active& expert = active[index];
    const uint64_t before = bytes_read;
    if (!expert.error) {
        for (const PlannedRead& read : expert.plan->reads) bytes_read += read.needed;
    }
    const ExpertKey key = expert.request.key;
    spans::add({expert.urgency == Urgency::demand ? "read" : "read ahead", expert.begin,
                spans::now(), bytes_read - before, expert.file->identity().device, key.layer,
                key.expert, spans::Track::drive, false});
    finished.push_back(
        {expert.request.key, expert.request.slot, expert.urgency, std::move(expert.error)});
    active.erase(active.begin() + static_cast<ptrdiff_t>(index));
}

void ExpertReader::Impl::read_done(uint64_t tag, std::optional<Error> error) {
    const auto expert = std::find_if(active.begin(), active.end(),
                                     [&](const Active& one) { return one.id == tag; });
    assert(expert != active.end() && expert->in_flight > 0);
    expert->in_flight--;
    reads_in_flight--;
    if (error && !expert->error) {
        const ExpertKey key = expert->request.key;
        expert->error =
            within(cat("layer ", key.layer, ", expert ", key.expert), std::move(*error)).value();
    }
    if (expert->in_flight == 0 && expert->all_queued()) {
        finish(static_cast<size_t>(expert - active.begin()));
    }
    start_what_may();  // the drive gets its next read before anyone looks at this one
}

ExpertReader::ExpertReader(ReadRing& ring, const ExpertMap& map)
    : impl_(std::make_unique<Impl>(ring, map)) {}

// The slots belong to the caller again after this, so nothing may be under way.
ExpertReader::~ExpertReader() {
    impl_->demand.clear();
    impl_->prefetch.clear();
    for (Active& expert : impl_->active)
        expert.next = static_cast<uint32_t>(expert.plan->reads.size());
    while (impl_->reads_in_flight > 0) {
        if (!impl_->ring.reap(true)) break;
    }
}

void ExpertReader::request(ExpertKey key, std::byte* slot, Urgency urgency) {
    assert(impl_->map.has(key) && slot && reinterpret_cast<uintptr_t>(slot) % page_size == 0);
    std::vector<Request>& queue = urgency == Urgency::demand ? impl_->demand : impl_->prefetch;
    assert(impl_->demand.size() + impl_->prefetch.size() < waiting_max());
    queue.push_back({key, slot});
}

void ExpertReader::promote(ExpertKey key) {
    for (Active& expert : impl_->active) {
        if (expert.request.key == key) expert.urgency = Urgency::demand;
    }
    std::vector<Request>& from = impl_->prefetch;
    const auto at = std::find_if(from.begin(), from.end(),
                                 [&](const Request& request) { return request.key == key; });
    if (at == from.end()) return;
    impl_->demand.push_back(*at);
    from.erase(at);
}

void ExpertReader::cancel_waiting_prefetches() {
    for (const Request& request : impl_->prefetch) {
        impl_->finished.push_back({request.key, request.slot, Urgency::prefetch,
                                   Error{Code::interrupted, "prefetch cancelled"}});
    }
    impl_->prefetch.clear();
}

Result<void> ExpertReader::pump() {
    impl_->start_what_may();
    return impl_->ring.submit();
}

Result<size_t> ExpertReader::collect(std::span<Arrived> out, bool wait) {
    Impl& impl = *impl_;
    bool block = false;
    for (;;) {
        impl.start_what_may();
        // Submits what was queued; tells us through read_done().
        if (auto reaped = impl.ring.reap(block); !reaped) return reaped;
        if (!impl.finished.empty() || !wait || pending() == 0) break;
        block = true;
    }
    impl.start_what_may();
    if (auto submitted = impl.ring.submit(); !submitted) {
        return tl::unexpected(std::move(submitted).error());
    }
    const size_t count = std::min(out.size(), impl.finished.size());
    const auto end = impl.finished.begin() + static_cast<ptrdiff_t>(count);
    std::move(impl.finished.begin(), end, out.begin());
    impl.finished.erase(impl.finished.begin(), end);
    return count;
}

uint32_t ExpertReader::pending() const {
    return static_cast<uint32_t>(impl_->demand.size() + impl_->prefetch.size() +
                                 impl_->active.size() + impl_->finished.size());
}

uint32_t ExpertReader::pending_demand() const {
    const auto done =
        std::count_if(impl_->finished.begin(), impl_->finished.end(),
                      [](const Arrived& arrived) { return arrived.urgency == Urgency::demand; });
    return static_cast<uint32_t>(impl_->demand.size() + impl_->active_of(Urgency::demand) + done);
}

uint64_t ExpertReader::bytes_read() const {
    return impl_->bytes_read;
}

}  // namespace sluice
