#include "io/checkpoint/expert_reader.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "io/clock.h"
#include "io/memory.h"
#include "io/profile.h"
#include "io/ring/share_reads.h"
#include "io/text.h"

namespace sluice {

namespace {

// A copy whose share would be smaller is not used: its read would cost more than it gains.
constexpr uint64_t share_least = 256u << 10;
// For drives that are not measured yet; only the ratio to other drives matters.
constexpr double rate_unknown = 1e9;
constexpr double slowest_share = 64;

struct Request {
    ExpertKey key;
    std::byte* slot;
};

enum class PieceState : uint8_t { waiting, in_flight, done };

// One read of an expert, from one copy.
struct Piece {
    PlannedRead read;
    const File* file;
    PieceState state;
};

// An expert that is being read. In `active` in the order started.
struct Active {
    Request request;
    Urgency urgency;
    uint32_t id;                // in the tags of its reads
    std::vector<Piece> pieces;  // from `spare`, and back
    uint32_t waiting = 0;       // pieces
    uint32_t in_flight = 0;     // pieces
    uint64_t bytes = 0;         // that have arrived
    int64_t begin = spans::now();
    bool cancelled = false;  // waiting pieces are not read, unless promoted
    std::optional<Error> error = {};
};

// The load of a drive; counted again by each survey().
struct Load {
    uint32_t demand = 0, prefetch = 0;  // experts being read from it
    bool demand_waits = false;          // a demand that has not started has a copy here
    uint64_t bytes = 0;                 // of pieces that are not done
    uint64_t in_flight = 0;             // of pieces in flight
};

}  // namespace

struct ExpertReader::Impl final : ReadClient {
    Impl(ReadRing& its_ring, const ExpertMap& its_map);

    void read_done(uint64_t tag, std::optional<Error> error) override;
    void start_what_may();
    void survey();
    void start_demand();
    void start_prefetch();
    void start(const Request& request, Urgency urgency);
    void divide(ExpertKey key);
    void count(const Active& expert);
    void queue_reads(Urgency urgency);
    bool may_queue(const Piece& piece, Urgency urgency) const;
    std::optional<uint64_t> prefetch_bytes_max(uint32_t drive) const;
    bool demand_open() const { return !demand.empty() || active_of(Urgency::demand) > 0; }
    void finish(size_t index);
    uint32_t active_of(Urgency urgency) const;
    uint32_t beside(ExpertKey key, Urgency urgency) const;

    ReadRing& ring;
    const ExpertMap& map;
    std::vector<Request> demand, prefetch;  // waiting, in the order requested
    std::vector<Active> active;
    std::vector<Arrived> finished;  // not collected yet
    std::vector<std::vector<Piece>> spare;
    std::vector<CopyRead> cuts;
    std::vector<Load> loads;   // by drive
    std::vector<bool> seen;    // by drive, scratch of count()
    uint32_t drive_reads_max;  // in the ring at once
    uint32_t reads_in_flight = 0;
    uint32_t next_id = 0;
    uint64_t bytes_read = 0;
    std::vector<uint64_t> bytes_from;  // by drive
    double gap_s =
        std::numeric_limits<double>::infinity();    // expected, from `quiet` to the next demand
    std::chrono::steady_clock::time_point quiet{};  // since then no demand is pending
};

ExpertReader::Impl::Impl(ReadRing& its_ring, const ExpertMap& its_map)
    : ring(its_ring),
      map(its_map),
      loads(map.drives()),
      seen(map.drives()),
      drive_reads_max(std::max(1u, ring.depth() / map.drives())),
      bytes_from(map.drives()) {
    demand.reserve(waiting_max());
    prefetch.reserve(waiting_max());
    // There may be promoted prefetches in addition to the full number of demand reads.
    const size_t most = size_t{map.tuning().in_flight_max} + prefetches_max();
    const size_t actives = most * map.drives();
    const size_t pieces =
        size_t{expert_parts} * map.tuning().parts + copies_max +
        map.slot_bytes() / std::max<uint64_t>(map.tuning().prefetch_piece, page_size);
    active.reserve(actives);
    finished.reserve(waiting_max() + actives);
    cuts.reserve(pieces);
    spare.resize(actives);
    for (std::vector<Piece>& list : spare) list.reserve(pieces);
}

uint32_t ExpertReader::Impl::active_of(Urgency urgency) const {
    return static_cast<uint32_t>(
        std::count_if(active.begin(), active.end(),
                      [&](const Active& expert) { return expert.urgency == urgency; }));
}

// Requested and not collected, with a drive in common.
uint32_t ExpertReader::Impl::beside(ExpertKey key, Urgency urgency) const {
    const auto near = [&](const Request& request) { return map.share_drive(request.key, key); };
    const std::vector<Request>& waits = urgency == Urgency::demand ? demand : prefetch;
    const auto reading = [&](const Active& expert) {
        return expert.urgency == urgency && near(expert.request);
    };
    const auto done = [&](const Arrived& arrived) {
        return arrived.urgency == urgency && map.share_drive(arrived.key, key);
    };
    return static_cast<uint32_t>(std::count_if(waits.begin(), waits.end(), near) +
                                 std::count_if(active.begin(), active.end(), reading) +
                                 std::count_if(finished.begin(), finished.end(), done));
}

// Adds an expert to the loads of the drives that it still needs.
void ExpertReader::Impl::count(const Active& expert) {
    seen.assign(seen.size(), false);
    for (const Piece& piece : expert.pieces) {
        if (piece.state == PieceState::done) continue;
        if (expert.cancelled && piece.state == PieceState::waiting) continue;
        const uint32_t drive = piece.file->drive();
        loads[drive].bytes += piece.read.length;
        if (piece.state == PieceState::in_flight) loads[drive].in_flight += piece.read.length;
        if (seen[drive]) continue;
        seen[drive] = true;
        (expert.urgency == Urgency::demand ? loads[drive].demand : loads[drive].prefetch)++;
    }
}

void ExpertReader::Impl::survey() {
    loads.assign(loads.size(), {});
    for (const Active& expert : active) count(expert);
}

// Fills `cuts` with the reads from each copy. Failed drives are used only if all have failed.
void ExpertReader::Impl::divide(ExpertKey key) {
    const auto files = map.copies(key);
    const std::vector<PlannedRead>& reads = map.plan(key).reads;
    cuts.clear();
    if (files.size() == 1) {
        for (const PlannedRead& read : reads) cuts.push_back({read, 0});
        return;
    }
    std::array<CopyState, copies_max> states{};
    std::array<uint64_t, copies_max> shares{};
    double fastest = 0;
    bool any = false;
    for (size_t i = 0; i < files.size(); ++i) {
        const uint32_t drive = files[i]->drive();
        states[i] = {ring.drive(drive).rate(), loads[drive].bytes, !ring.drive_failed(drive)};
        any = any || states[i].available;
        fastest = std::max(fastest, states[i].bytes_s);
    }
    for (size_t i = 0; i < files.size(); ++i) {
        CopyState& state = states[i];
        if (state.bytes_s <= 0) state.bytes_s = fastest > 0 ? fastest : rate_unknown;
        // A slow drive is still used a little, so that its recovery is noticed.
        state.bytes_s = std::max(state.bytes_s, fastest / slowest_share);
        state.available = state.available || !any;
    }
    uint64_t total = 0;
    for (const PlannedRead& read : reads) total += read.length;
    const std::span<uint64_t> parts(shares.data(), files.size());
    share_bytes(total, files[0]->alignment(), share_least, {states.data(), files.size()}, parts);
    cut_reads(reads, parts, cuts);
}

void ExpertReader::Impl::start(const Request& request, Urgency urgency) {
    divide(request.key);
    Active expert{.request = request, .urgency = urgency, .id = next_id++, .pieces = {}};
    if (!spare.empty()) {
        expert.pieces = std::move(spare.back());
        spare.pop_back();
    }
    const auto files = map.copies(request.key);
    for (const CopyRead& cut : cuts) {
        const File& file = *files[cut.copy];
        const uint64_t most = std::max<uint64_t>(map.tuning().prefetch_piece, file.alignment());
        const uint64_t length = urgency == Urgency::demand ? UINT64_MAX : most;
        for (PlannedRead rest = cut.read; rest.needed > 0;) {
            const PlannedRead piece =
                take_front(rest, length / file.alignment() * file.alignment());
            expert.pieces.push_back({piece, &file, PieceState::waiting});
        }
    }
    expert.waiting = static_cast<uint32_t>(expert.pieces.size());
    count(expert);
    active.push_back(std::move(expert));
}

// In the order requested; but an expert whose drives are busy does not hold up those on other
// drives.
void ExpertReader::Impl::start_demand() {
    const uint32_t most = map.tuning().in_flight_max;
    const auto has_room = [&](uint32_t drive) { return loads[drive].demand < most; };
    const auto any_room = [&] {
        return std::any_of(loads.begin(), loads.end(),
                           [&](const Load& load) { return load.demand < most; });
    };
    size_t at = 0, kept = 0;
    for (; at < demand.size() && any_room(); ++at) {
        const auto files = map.copies(demand[at].key);
        const auto well = [&](const File* file) { return !ring.drive_failed(file->drive()); };
        const bool all_failed = std::none_of(files.begin(), files.end(), well);
        const bool may = std::any_of(files.begin(), files.end(), [&](const File* file) {
            return has_room(file->drive()) && (all_failed || well(file));
        });
        if (may) {
            start(demand[at], Urgency::demand);
        } else {
            demand[kept++] = demand[at];
        }
    }
    demand.erase(demand.begin() + static_cast<ptrdiff_t>(kept),
                 demand.begin() + static_cast<ptrdiff_t>(at));
}

void ExpertReader::Impl::start_prefetch() {
    const auto idle = [&](const File* file) {
        const uint32_t drive = file->drive();
        const Load& load = loads[drive];
        if (load.demand > 0 || load.demand_waits) return false;
        if (load.prefetch == 0) return true;
        return load.prefetch < prefetches_max() &&
               load.bytes < prefetch_bytes_max(drive).value_or(0);
    };
    size_t kept = 0;
    for (const Request request : prefetch) {
        const auto files = map.copies(request.key);
        if (std::all_of(files.begin(), files.end(), idle)) {
            start(request, Urgency::prefetch);
        } else {
            prefetch[kept++] = request;
        }
    }
    prefetch.erase(prefetch.begin() + static_cast<ptrdiff_t>(kept), prefetch.end());
}

// Starts waiting experts as far as the limits allow, and queues the reads of started ones while the
// ring has room.
void ExpertReader::Impl::start_what_may() {
    survey();
    start_demand();
    for (const Request& request : demand) {
        for (const File* file : map.copies(request.key)) loads[file->drive()].demand_waits = true;
    }
    start_prefetch();
    queue_reads(Urgency::demand);
    queue_reads(Urgency::prefetch);
}

void ExpertReader::Impl::queue_reads(Urgency urgency) {
    for (Active& expert : active) {
        if (expert.urgency != urgency || expert.waiting == 0 || expert.cancelled) continue;
        for (size_t i = 0; i < expert.pieces.size() && ring.free() > 0; ++i) {
            Piece& piece = expert.pieces[i];
            if (piece.state != PieceState::waiting) continue;
            if (!may_queue(piece, urgency)) continue;
            piece.state = PieceState::in_flight;
            loads[piece.file->drive()].in_flight += piece.read.length;
            --expert.waiting;
            ++expert.in_flight;
            ++reads_in_flight;
            ring.queue({piece.file, piece.read.offset, expert.request.slot + piece.read.to,
                        piece.read.length, piece.read.needed, this, uint64_t{expert.id} << 32 | i});
        }
    }
}

// Bytes of prefetches that a drive may be given: what it delivers until the next demand. nullopt if
// that is unknown.
std::optional<uint64_t> ExpertReader::Impl::prefetch_bytes_max(uint32_t drive) const {
    const double rate = ring.drive(drive).rate();
    if (rate <= 0 || std::isinf(gap_s)) return std::nullopt;
    const double passed = demand_open() ? 0 : to_seconds(ring.now() - quiet);
    return static_cast<uint64_t>(rate * (1 + prefetch_margin) * std::max(0.0, gap_s - passed));
}

// A prefetch that was overtaken by demand continues once the demand has arrived.
bool ExpertReader::Impl::may_queue(const Piece& piece, Urgency urgency) const {
    const uint32_t drive = piece.file->drive();
    if (ring.drive(drive).in_flight() >= drive_reads_max) return false;
    if (urgency == Urgency::demand) return true;
    if (loads[drive].demand > 0 || loads[drive].demand_waits) return false;
    const uint64_t there = loads[drive].in_flight;
    return there == 0 ||
           there + piece.read.length <= prefetch_bytes_max(drive).value_or(UINT64_MAX);
}

void ExpertReader::Impl::finish(size_t index) {
    Active& expert = active[index];
    const uint64_t before = bytes_read;
    const Urgency urgency = expert.urgency;
    if (expert.cancelled && expert.waiting > 0 && !expert.error) {
        expert.error = Error{Code::interrupted, "prefetch cancelled"};
    }
    if (!expert.error) {
        for (const Piece& piece : expert.pieces) bytes_read += piece.read.needed;
    }
    const ExpertKey key = expert.request.key;
    spans::add({expert.urgency == Urgency::demand ? "read" : "read ahead", expert.begin,
                spans::now(), bytes_read - before, expert.pieces.front().file->identity().device,
                key.layer, key.expert, spans::Track::drive, false});
    finished.push_back({expert.request.key, expert.request.slot, expert.urgency,
                        std::move(expert.error), expert.bytes});
    expert.pieces.clear();
    spare.push_back(std::move(expert.pieces));
    active.erase(active.begin() + static_cast<ptrdiff_t>(index));
    if (urgency == Urgency::demand && !demand_open()) quiet = ring.now();
}

void ExpertReader::Impl::read_done(uint64_t tag, std::optional<Error> error) {
    const auto expert = std::find_if(active.begin(), active.end(),
                                     [&](const Active& one) { return one.id == tag >> 32; });
    assert(expert != active.end() && expert->in_flight > 0);
    Piece& piece = expert->pieces[tag & UINT32_MAX];
    piece.state = PieceState::done;
    if (!error) {
        expert->bytes += piece.read.needed;
        bytes_from[ring.delivered_by()] += piece.read.needed;
    }
    --expert->in_flight;
    --reads_in_flight;
    if (error && !expert->error) {
        const ExpertKey key = expert->request.key;
        expert->error =
            within(cat("layer ", key.layer, ", expert ", key.expert), std::move(*error)).value();
    }
    if (expert->error) {  // the rest need not be read
        for (Piece& rest : expert->pieces) {
            if (rest.state == PieceState::waiting) rest.state = PieceState::done;
        }
        expert->waiting = 0;
    }
    if (expert->in_flight == 0 && (expert->waiting == 0 || expert->cancelled)) {
        finish(static_cast<size_t>(expert - active.begin()));
    }
    start_what_may();  // the drive gets its next read before this one is used
}

ExpertReader::ExpertReader(ReadRing& ring, const ExpertMap& map)
    : impl_(std::make_unique<Impl>(ring, map)) {}

// The slots belong to the caller again afterwards, so no read may be in flight.
ExpertReader::~ExpertReader() {
    impl_->demand.clear();
    impl_->prefetch.clear();
    for (Active& expert : impl_->active) {
        for (Piece& piece : expert.pieces) {
            if (piece.state == PieceState::waiting) piece.state = PieceState::done;
        }
        expert.waiting = 0;
    }
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
        if (expert.request.key != key) continue;
        expert.urgency = Urgency::demand;
        expert.cancelled = false;
    }
    std::vector<Request>& from = impl_->prefetch;
    const auto at = std::find_if(from.begin(), from.end(),
                                 [&](const Request& request) { return request.key == key; });
    if (at == from.end()) return;
    impl_->demand.push_back(*at);
    from.erase(at);
}

void ExpertReader::cancel(ExpertKey key) {
    Impl& impl = *impl_;
    std::erase_if(impl.prefetch, [&](const Request& request) {
        if (request.key != key) return false;
        impl.finished.push_back({request.key, request.slot, Urgency::prefetch,
                                 Error{Code::interrupted, "prefetch cancelled"}});
        return true;
    });
    for (size_t i = impl.active.size(); i-- > 0;) {
        Active& expert = impl.active[i];
        if (expert.request.key != key || expert.urgency != Urgency::prefetch) continue;
        expert.cancelled = true;
        if (expert.in_flight == 0) impl.finish(i);
    }
}

void ExpertReader::expect_demand_after(double seconds) {
    impl_->gap_s = seconds;
    if (!impl_->demand_open()) impl_->quiet = impl_->ring.now();
}

std::optional<std::chrono::steady_clock::time_point> ExpertReader::quiet_since() const {
    if (impl_->demand_open()) return std::nullopt;
    return impl_->quiet;
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
        // Submits what was queued, and calls read_done().
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

uint32_t ExpertReader::pending_beside(ExpertKey key) const {
    return impl_->beside(key, Urgency::demand) + impl_->beside(key, Urgency::prefetch);
}

uint32_t ExpertReader::pending_demand_beside(ExpertKey key) const {
    return impl_->beside(key, Urgency::demand);
}

uint64_t ExpertReader::bytes_read() const {
    return impl_->bytes_read;
}

uint64_t ExpertReader::bytes_from(uint32_t drive) const {
    return drive < impl_->bytes_from.size() ? impl_->bytes_from[drive] : 0;
}

}  // namespace sluice
