#include "io/ring/ring.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "io/clock.h"
#include "io/format.h"
#include "io/log.h"
#include "io/memory.h"
#include "io/profile.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint32_t read_max = uint32_t{1} << 30;
// Tries in a row without a byte of progress. Beyond `tries_fast` with a pause, so that a kernel
// short of memory has a fifth of a second to find some.
constexpr uint32_t tries_max = 200;
constexpr uint32_t tries_fast = 20;
// A blocking reap that took less time found what was already there.
constexpr auto awaited_least = std::chrono::microseconds(10);
constexpr auto pause = std::chrono::milliseconds(1);

std::string slow_text(const DriveMeter& meter) {
    return formatted("{:.2f} GB/s, was {:.2f}", meter.rate() / 1e9, meter.best() / 1e9);
}

bool file_ends_before(const File& file, uint64_t offset) {
    struct stat info;
    return fstat(file.fd(), &info) == 0 && static_cast<uint64_t>(info.st_size) < offset;
}

}  // namespace

struct ReadRing::Impl {
    struct Slot {
        Read read;
        uint32_t begin;  // of the last submission, in the read
        uint32_t done;   // bytes in place
        uint32_t tries;
        uint64_t tried;  // a bit for each copy that failed
    };
    std::unique_ptr<RingEngine> engine;
    std::vector<Slot> slots;
    std::vector<std::vector<const File*>> copies;  // files with the same bytes
    std::vector<uint32_t> free_ids;
    std::vector<RingEngine::Raw> pending;
    std::vector<RingEngine::RawDone> done;
    Clock::time_point busy_since;
    std::optional<Error> broken;
};

ReadRing::ReadRing(std::unique_ptr<RingEngine> engine, uint32_t depth)
    : impl_(std::make_unique<Impl>()), depth_(depth) {
    assert(engine != nullptr && depth > 0);
    impl_->engine = std::move(engine);
    impl_->slots.resize(depth);
    impl_->pending.reserve(depth);
    impl_->done.resize(depth);
    for (uint32_t id = depth; id > 0; --id) impl_->free_ids.push_back(id - 1);
}

ReadRing::~ReadRing() {
    size_t running = in_flight_ - impl_->pending.size();
    while (running > 0 && !impl_->broken) {
        const auto reaped = impl_->engine->reap(impl_->done, true);
        if (!reaped) break;
        running -= *reaped;
    }
}

const char* ReadRing::engine_name() const {
    return impl_->engine->name();
}

std::chrono::steady_clock::time_point ReadRing::now() const {
    return impl_->engine->now();
}

Result<void> ReadRing::add_file(const File& file) {
    auto added = impl_->engine->add_file(file.fd());
    if (!added) return within(printable(file.path().native()), std::move(added).error());
    drive_of(file);
    return {};
}

ReadRing::Drive& ReadRing::drive_of(const File& file) {
    if (file.drive() >= drives_.size()) drives_.resize(file.drive() + size_t{1});
    Drive& drive = drives_[file.drive()];
    if (drive.folder.empty()) drive.folder = printable(file.path().parent_path().native());
    return drive;
}

void ReadRing::add_copies(std::span<const File* const> copies) {
    assert(copies.size() <= 64);
    assert(std::all_of(copies.begin(), copies.end(), [&](const File* file) {
        return file->alignment() == copies.front()->alignment();
    }));
    impl_->copies.emplace_back(copies.begin(), copies.end());
}

// The first copy not in `tried`, preferably on a drive that works.
const File* ReadRing::other_copy(const Read& read, uint64_t tried) const {
    const File* best = nullptr;
    for (const auto& group : impl_->copies) {
        if (std::find(group.begin(), group.end(), read.file) == group.end()) continue;
        for (size_t i = 0; i < group.size(); ++i) {
            const File& file = *group[i];
            if ((tried >> i & 1) != 0) continue;
            if (best && (!drives_[best->drive()].failed || drives_[file.drive()].failed)) continue;
            best = &file;
        }
    }
    return best;
}

const File& ReadRing::idlest_copy(const File& file) const {
    const File* best = &file;
    for (const auto& group : impl_->copies) {
        if (std::find(group.begin(), group.end(), &file) == group.end()) continue;
        for (const File* copy : group) {
            const Drive& drive = drives_[copy->drive()];
            const Drive& rival = drives_[best->drive()];
            const bool idler = drive.meter.in_flight() < rival.meter.in_flight();
            if (!drive.failed && (idler || rival.failed)) best = copy;
        }
    }
    return *best;
}

// After a failure: starts the same read from another copy. False if none is left.
bool ReadRing::read_elsewhere(uint32_t id, Error& error) {
    Impl::Slot& slot = impl_->slots[id];
    for (const auto& group : impl_->copies) {
        const auto at = std::find(group.begin(), group.end(), slot.read.file);
        if (at == group.end()) continue;
        slot.tried |= uint64_t{1} << (at - group.begin());
        const File* other = other_copy(slot.read, slot.tried);
        Drive& drive = drives_[slot.read.file->drive()];
        if (!other) {
            error.message += "; no other copy is left";
            return false;
        }
        if (!drive.failed) {
            drive.failed = true;
            drive.cause = error.message;
            log::warn(cat("drive ", drive.folder,
                          " is no longer used; reading from another copy: ", error.message));
        }
        drive.meter.finished(reaped_at_, 0, false);
        slot.read.file = other;
        slot.done = slot.tries = 0;
        drives_[other->drive()].meter.queued(impl_->engine->now());
        resubmit(id);
        return true;
    }
    return false;
}

void ReadRing::report_slow_drives() {
    for (Drive& drive : drives_) {
        if (drives_.size() < 2 || !drive.meter.slowed_down()) continue;
        log::warn(cat("drive ", drive.folder, " has slowed down: ", slow_text(drive.meter),
                      impl_->copies.empty() ? "" : "; reading more from other copies"));
    }
}

std::vector<DriveStats> ReadRing::drive_stats() const {
    using State = DriveStats::State;
    std::vector<DriveStats> out;
    for (const Drive& drive : drives_) {
        const DriveMeter& meter = drive.meter;
        DriveStats stats;
        stats.folder = drive.folder;
        stats.reads = meter.reads();
        stats.bytes = meter.bytes();
        stats.busy_s = meter.busy_s();
        if (drive.failed) {
            stats.state = State::left_out;
            stats.cause = drive.cause;
        } else if (drives_.size() > 1 && meter.slow()) {
            stats.state = State::slow;
            stats.cause = slow_text(meter);
        }
        out.push_back(std::move(stats));
    }
    return out;
}

Result<void> ReadRing::add_memory(std::span<std::byte> memory) {
    return impl_->engine->add_memory(memory);
}

void ReadRing::queue(const Read& read) {
    assert(free() > 0);
    assert(read.length > 0 && read.length <= read_max && read.needed <= read.length);
    const uint64_t alignment = read.file->alignment();
    assert(read.offset % alignment == 0 && read.length % alignment == 0);
    assert(reinterpret_cast<uintptr_t>(read.to) % std::min<uint64_t>(alignment, page_size) == 0);
    if (in_flight_ == 0) impl_->busy_since = impl_->engine->now();
    const uint32_t id = impl_->free_ids.back();
    impl_->free_ids.pop_back();
    impl_->slots[id] = {.read = read, .begin = 0, .done = 0, .tries = 0, .tried = 0};
    Read& queued = impl_->slots[id].read;
    if (drive_of(*read.file).failed) {
        if (const File* other = other_copy(read, 0)) queued.file = other;
    }
    drive_of(*queued.file).meter.queued(impl_->engine->now());
    ++in_flight_;
    ++stats_.reads;
    resubmit(id);
}

void ReadRing::resubmit(uint32_t id) {
    Impl::Slot& slot = impl_->slots[id];
    const Read& read = slot.read;
    slot.begin = static_cast<uint32_t>(read.file->resume_at(slot.done));
    impl_->pending.push_back({.fd = read.file->fd(),
                              .offset = read.offset + slot.begin,
                              .to = read.to + slot.begin,
                              .length = read.length - slot.begin,
                              .id = id,
                              .drive = read.file->drive()});
}

Result<void> ReadRing::submit() {
    if (impl_->broken) return tl::unexpected(*impl_->broken);
    if (impl_->pending.empty()) return {};
    auto submitted = impl_->engine->submit(impl_->pending);
    if (!submitted) {
        impl_->broken = submitted.error();
        return submitted;
    }
    impl_->pending.clear();
    return {};
}

Result<size_t> ReadRing::reap(bool wait) {
    if (auto submitted = submit(); !submitted) return tl::unexpected(submitted.error());
    size_t finished = 0;
    while (in_flight_ > 0) {
        const bool block = wait && finished == 0;
        const auto before = impl_->engine->now();
        const auto reaped = [&] {
            if (!block) return impl_->engine->reap(impl_->done, false);
            const spans::Leaf leaf("wait for drive");
            return impl_->engine->reap(impl_->done, true);
        }();
        const auto after = impl_->engine->now();
        if (!reaped) {
            impl_->broken = reaped.error();
            return tl::unexpected(reaped.error());
        }
        awaited_ = block && after - before > awaited_least;
        reaped_at_ = after;
        if (block) stats_.wait_s += to_seconds(after - before);
        stats_.busy_s += to_seconds(after - impl_->busy_since);
        impl_->busy_since = after;
        for (size_t i = 0; i < *reaped; ++i) {
            const auto [id, result] = impl_->done[i];
            if (advance(id, result)) ++finished;
        }
        report_slow_drives();
        if (auto submitted = submit(); !submitted) return tl::unexpected(submitted.error());
        if (!wait || finished > 0) break;
    }
    return finished;
}

bool ReadRing::advance(uint32_t id, int64_t result) {
    Impl::Slot& slot = impl_->slots[id];
    const Read& read = slot.read;
    const auto failed = [&](int number) {
        Error error = read_error(read.file->path(), read.offset, read.needed, slot.done, number);
        if (read_elsewhere(id, error)) return false;
        finish(id, std::move(error));
        return true;
    };
    const int number = result < 0 ? static_cast<int>(-result) : 0;
    if (number != 0 && number != EINTR && number != EAGAIN) return failed(number);
    const uint64_t reached = slot.begin + (number == 0 ? static_cast<uint64_t>(result) : 0);
    assert(reached <= read.length);
    if (reached > slot.done) {
        slot.done = static_cast<uint32_t>(reached);
        slot.tries = 0;
    } else {
        ++slot.tries;
    }
    if (slot.done >= read.needed) {
        finish(id, std::nullopt);
        return true;
    }
    // No bytes, or no new ones where direct reads give only whole blocks: perhaps the end of the
    // file.
    const bool stuck = number == 0 && slot.tries > 0;
    if (result == 0 || (stuck && file_ends_before(*read.file, read.offset + read.needed))) {
        return failed(0);
    }
    if (slot.tries > tries_max) return failed(number == 0 ? EIO : number);
    if (number == EAGAIN && slot.tries > tries_fast) std::this_thread::sleep_for(pause);
    ++stats_.resubmitted;
    resubmit(id);
    return false;
}

void ReadRing::finish(uint32_t id, std::optional<Error> error) {
    const Read read = impl_->slots[id].read;
    read.file->forget(read.offset, read.length);
    if (!error) {
        // Past the end of the file, so that the same bytes are there whatever was in memory before.
        std::memset(read.to + read.needed, 0, read.length - read.needed);
        stats_.bytes += read.needed;
    }
    delivered_by_ = read.file->drive();
    drives_[delivered_by_].meter.finished(reaped_at_, error ? 0 : read.needed, awaited_);
    impl_->free_ids.push_back(id);
    --in_flight_;
    read.client->read_done(read.tag, std::move(error));
}

}  // namespace sluice
