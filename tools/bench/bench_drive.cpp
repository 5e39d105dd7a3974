#include "tools/bench/bench_drive.h"

#include <liburing.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <span>

#include "engine/load/load.h"
#include "engine/load/read_ring.h"
#include "engine/load/read_trial.h"
#include "io/ring/ring_paced.h"
#include "io/text.h"
#include "tools/bench/timing.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr uint32_t block_min = 128u << 10;
constexpr uint32_t block_max = 16u << 20;
constexpr uint32_t depth_max = 64;
constexpr size_t shards_max = 8;
constexpr int rounds = 5;
constexpr int patience = 60;  // seconds that experts of a paced drive may take

// Plain reads of one size at random aligned places, always `depth` of them in flight. They are
// spread over `spread` bytes of memory, as much as the engine's slots take: one or two blocks that
// stay in the CPU's cache would look faster than data that is used.
class RawReads {
 public:
    RawReads(std::vector<const File*> files, std::span<std::byte> memory, size_t spread)
        : files_(std::move(files)), memory_(memory), spread_(spread) {}

    Result<double> measure(uint32_t block, uint32_t depth, double seconds) {
        io_uring ring;
        int status = io_uring_queue_init(depth, &ring, 0);
        if (status < 0) return fail(Code::io, cat("io_uring: ", std::strerror(-status)));
        auto rate = run(ring, block, depth, seconds);
        io_uring_queue_exit(&ring);
        return rate;
    }

 private:
    Result<double> run(io_uring& ring, uint32_t block, uint32_t depth, double seconds) {
        auto start = Clock::now();
        for (uint32_t slot = 0; slot < depth; ++slot) queue(ring, block, slot);
        uint32_t in_flight = depth;
        uint64_t bytes = 0;
        Result<double> out = 0.0;
        while (in_flight > 0) {
            int status = io_uring_submit_and_wait(&ring, 1);
            if (status < 0 && status != -EINTR) {
                return fail(Code::io, cat("io_uring: ", std::strerror(-status)));
            }
            io_uring_cqe* done = nullptr;
            while (io_uring_peek_cqe(&ring, &done) == 0) {
                auto slot = static_cast<uint32_t>(done->user_data);
                if (done->res < 0)
                    out = fail(Code::io,
                               cat("read of ", block, " bytes: ", std::strerror(-done->res)));
                else
                    bytes += static_cast<uint64_t>(done->res);
                io_uring_cqe_seen(&ring, done);
                bool more = out && seconds_since(start) < seconds && !interrupt_requested();
                if (more)
                    queue(ring, block, slot);
                else
                    --in_flight;
            }
        }
        if (interrupt_requested()) return fail(Code::interrupted, "interrupted");
        if (!out) return out;
        return static_cast<double>(bytes) / seconds_since(start);
    }

    void queue(io_uring& ring, uint32_t block, uint32_t slot) {
        const File& file = *files_[random_() % files_.size()];
        uint64_t places = file.size() / block;
        io_uring_sqe* sqe = io_uring_get_sqe(&ring);
        size_t room = std::max<size_t>(spread_, size_t{depth_max} * block);
        if (next_ + block > std::min(room, memory_.size())) next_ = 0;
        io_uring_prep_read(sqe, file.fd(), memory_.data() + next_, block,
                           random_() % places * block);
        next_ += block;
        sqe->user_data = slot;
    }

    std::vector<const File*> files_;
    std::span<std::byte> memory_;
    size_t spread_, next_ = 0;
    std::mt19937_64 random_{1};
};

// A checkpoint with its experts mapped, and the engine's reader on a ring of its own.
struct EngineReads {
    Loaded model;
    PageBuffer memory;
    std::unique_ptr<ReadRing> ring;
    std::unique_ptr<ReadTrial> trial;

    const ExpertMap& map() const { return *model.runtime.experts; }
    uint32_t layer() const { return static_cast<uint32_t>(model.runtime.config.top_k); }
};

// Random experts are sometimes all on one drive: enough requests wait that no drive runs out.
size_t slots_of(const EngineReads& reads, const EngineOptions& options) {
    const uint32_t drives = reads.map().drives();
    return reads.layer() + size_t{drives > 1 ? 4u : 2u} * options.tuning.in_flight_max * drives;
}

// The fewest experts that one trial of each kind reads.
size_t experts_measured(const EngineReads& reads, const EngineOptions& options) {
    return slots_of(reads, options) + reads.layer();
}

Result<void> check_pace(const EngineReads& reads, const EngineOptions& options, size_t experts) {
    if (options.paces.empty()) return {};
    const uint64_t bytes = experts * reads.map().expert_bytes({0, 0});
    const double bytes_s = paced_bytes_s(options.paces, reads.model.runtime.checkpoint.drives());
    const double seconds = static_cast<double>(bytes) / bytes_s;
    if (seconds <= patience) return {};
    return fail(
        Code::usage,
        cat("--io paced: a measurement reads ", experts, " experts (", size_text(bytes),
            "), which takes ", static_cast<uint64_t>(seconds), " s at ", paces_text(options.paces),
            "; the limit is ", patience, " s; choose a faster pace"));
}

Result<std::string> start_reader(EngineReads& out, const EngineOptions& options, uint64_t room) {
    const uint64_t slot = out.map().slot_bytes();
    const size_t slots = std::min<size_t>(slots_of(out, options), room / slot);
    if (slots < out.layer()) {
        return fail(Code::no_memory, cat("--ram: measuring reads needs room for the ", out.layer(),
                                         " experts of a layer, ", size_text(out.layer() * slot),
                                         "; only ", size_text(room), " is available; raise it"));
    }
    auto opened = open_read_ring(out.model.runtime.checkpoint, options);
    if (!opened) return tl::unexpected(opened.error());
    out.ring = std::move(opened->ring);
    auto memory = PageBuffer::create(slots * slot, "drive benchmark, experts");
    if (!memory) return tl::unexpected(memory.error());
    out.memory = std::move(*memory);
    if (auto added = out.ring->add_memory(out.memory.span()); !added)
        return tl::unexpected(added.error());
    out.trial = std::make_unique<ReadTrial>(out.map(), *out.ring, out.memory.span(), cancel_flag());
    return opened->name;
}

std::vector<const File*> largest_shards(const Checkpoint& checkpoint) {
    std::vector<const File*> files;
    for (const auto& shard : checkpoint.shards()) files.push_back(&shard);
    std::sort(files.begin(), files.end(),
              [](const File* a, const File* b) { return a->size() > b->size(); });
    files.resize(std::min(files.size(), shards_max));
    // A small shard would force small blocks on all of them.
    while (files.size() > 1 && files.back()->size() < files.front()->size() / 2) files.pop_back();
    return files;
}

// The smallest block (a power of two) that suits the alignment of all `files`.
uint32_t smallest_block(std::span<const File* const> files) {
    uint32_t block = block_min;
    for (const File* file : files) block = std::max(block, file->alignment());
    return block;
}

// The largest block (a power of two) that the smallest of `files` (largest first) holds; 0: none.
uint32_t largest_block(std::span<const File* const> files) {
    uint32_t block = block_max;
    while (block > files.back()->size()) block /= 2;
    return block < smallest_block(files) ? 0 : block;
}

// Memory for plain reads: as much as `room` leaves beside the engine's.
Result<PageBuffer> block_memory(std::span<const File* const> files, uint64_t engine,
                                uint64_t room) {
    const uint64_t block = largest_block(files);
    if (block == 0) return fail(Code::usage, "the shards are too small to measure a drive with");
    const uint64_t wanted = std::max(engine, depth_max * block);
    const uint64_t bytes = std::min(wanted, round_down(room - std::min(room, engine), page_size));
    const uint32_t least = smallest_block(files);
    if (bytes < least) {
        return fail(Code::no_memory, cat("--ram: measuring a drive needs at least ",
                                         size_text(engine + least), "; raise it"));
    }
    auto memory = PageBuffer::create(bytes, "drive benchmark, blocks");
    if (memory) std::memset(memory->data(), 1, memory->size());
    return memory;
}

Result<void> measure_raw(DriveReport& report, RawReads& raw, std::span<const File* const> files,
                         uint64_t memory, double seconds) {
    for (uint32_t block = smallest_block(files); block <= largest_block(files); block *= 2) {
        for (uint32_t depth = 1; depth <= depth_max && uint64_t{block} * depth <= memory;
             depth *= 2) {
            auto rate = raw.measure(block, depth, seconds);
            if (!rate) return tl::unexpected(rate.error());
            report.raw.push_back({block, depth, *rate});
            if (*rate > report.best.bytes_s) report.best = report.raw.back();
        }
    }
    return {};
}

}  // namespace

Result<void> check_bench_pace(const EngineOptions& options) {
    if (options.paces.empty()) return {};
    EngineReads engine;
    auto described = describe_model(options, engine.model);
    if (!described) return tl::unexpected(described.error());
    const size_t token = size_t{engine.layer()} * static_cast<size_t>(engine.map().layers());
    return check_pace(engine, options, std::max(token, rounds * experts_measured(engine, options)));
}

Result<EngineReadRates> measure_engine_reads(const EngineOptions& options, uint64_t room,
                                             double seconds) {
    EngineReads engine;
    auto described = describe_model(options, engine.model);
    if (!described) return tl::unexpected(described.error());
    if (auto fits = check_pace(engine, options, experts_measured(engine, options)); !fits) {
        return tl::unexpected(fits.error());
    }
    auto name = start_reader(engine, options, room);
    if (!name) return tl::unexpected(name.error());
    std::memset(engine.memory.data(), 1, engine.memory.size());
    auto stream = engine.trial->measure(0, seconds);
    if (!stream) return tl::unexpected(stream.error());
    auto layer = engine.trial->measure(engine.layer(), seconds);
    if (!layer) return tl::unexpected(layer.error());
    return EngineReadRates{*stream, *layer};
}

Result<DriveReport> bench_drive(const EngineOptions& options, uint64_t room, double seconds) {
    DriveReport report;
    EngineReads engine;
    auto described = describe_model(options, engine.model);
    if (!described) return tl::unexpected(described.error());
    auto name = start_reader(engine, options, room);
    if (!name) return tl::unexpected(name.error());
    const Checkpoint& checkpoint = engine.model.runtime.checkpoint;
    report.io_name = *name;
    report.drives = drives_reported(checkpoint, options);
    report.expert_bytes = engine.map().expert_bytes({0, 0});
    std::memset(engine.memory.data(), 1, engine.memory.size());  // no first touch in a measurement
    const auto files = largest_shards(checkpoint);
    const bool paced = !options.paces.empty();
    PageBuffer memory;
    if (paced) {
        report.best.bytes_s = paced_bytes_s(options.paces, report.drives);
    } else if (auto blocks = block_memory(files, engine.memory.size(), room); !blocks) {
        return tl::unexpected(blocks.error());
    } else {
        memory = std::move(*blocks);
    }
    RawReads raw(files, memory.span(), engine.memory.size());
    if (!paced) {
        auto done = measure_raw(report, raw, files, memory.size(), seconds / 4);
        if (!done) return tl::unexpected(done.error());
    }
    std::vector<double> best, stream, layer;
    for (int round = 0; round < rounds; ++round) {
        Result<double> a = report.best.bytes_s;
        if (!paced) a = raw.measure(report.best.block, report.best.depth, seconds);
        auto b = a ? engine.trial->measure(0, seconds) : a;
        auto c = b ? engine.trial->measure(engine.layer(), seconds) : b;
        if (!c) return tl::unexpected(c.error());
        best.push_back(*a), stream.push_back(*b), layer.push_back(*c);
    }
    report.best.bytes_s = median(best);
    report.stream_bytes_s = median(stream);
    report.layer_bytes_s = median(layer);
    return report;
}

}  // namespace sluice
