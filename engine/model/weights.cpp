#include "engine/model/weights.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/model/model.h"
#include "engine/model/weight_check.h"
#include "io/clock.h"
#include "io/text.h"

namespace sluice {

namespace {

// The size of one read; smaller if there is little staging memory.
constexpr uint64_t window_most = 4u << 20, window_least = 64u << 10;
// Enough to fill a drive's queue while as many again are checked and copied; and the minimum.
constexpr uint32_t window_slots = 24, window_slots_least = 8;
constexpr int helpers_max = 8;
constexpr uint64_t gap_max = 64u << 10;  // a gap up to this size is read over
constexpr uint64_t place_alignment = 256;

// One tensor to load, and its destination.
struct Load {
    const TensorSpec* spec;
    const Tensor* tensor;
    std::byte* to;
    bool host;
};

// A part of a tensor inside a window.
struct Piece {
    uint32_t load;
    uint64_t from;  // in the tensor, a multiple of 4
    uint64_t at;    // in the window
    uint64_t bytes;
};

struct Window {
    const File* file;
    uint64_t offset;  // aligned
    uint32_t length;  // aligned
    uint32_t needed;
    std::vector<Piece> pieces;
};

void close_window(Window& window, uint64_t end) {
    const uint64_t size = window.file->size();
    const uint64_t aligned = round_up(end, window.file->alignment());
    window.length = static_cast<uint32_t>(aligned - window.offset);
    window.needed = static_cast<uint32_t>(std::min(aligned, size) - window.offset);
}

// Interleaves the windows of all drives, so that all progress by the same fraction. The windows of
// one drive stay in file order.
std::vector<Window> interleave(std::vector<Window> windows) {
    std::map<uint32_t, double> all, done;
    for (const Window& window : windows) all[window.file->drive()] += window.needed;
    if (all.size() < 2) return windows;
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < windows.size(); ++i) {
        const uint32_t drive = windows[i].file->drive();
        order.emplace_back(done[drive] / all[drive], i);
        done[drive] += windows[i].needed;
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Window> out;
    for (const auto& [fraction, i] : order) out.push_back(std::move(windows[i]));
    return out;
}

// `loads` is in file order. Tensors are cut at multiples of 4 bytes from their own beginning, so
// that no value is split between two pieces.
std::vector<Window> plan_windows(const std::vector<Load>& loads, const Checkpoint& checkpoint,
                                 uint64_t window_bytes) {
    std::vector<Window> windows;
    uint64_t end = 0;  // of the payload in the last window
    for (uint32_t i = 0; i < loads.size(); ++i) {
        const Tensor& tensor = *loads[i].tensor;
        const File* file = &checkpoint.shards()[tensor.shard];
        uint64_t done = 0;
        while (done < tensor.bytes) {
            const uint64_t begin = tensor.offset + done;
            const bool fits = !windows.empty() && windows.back().file == file && begin >= end &&
                              begin - end <= gap_max &&
                              begin + 4 <= windows.back().offset + window_bytes;
            if (!fits) {
                if (!windows.empty()) close_window(windows.back(), end);
                const uint64_t offset = round_down(begin, file->alignment());
                windows.push_back({file, offset, 0, 0, {}});
            }
            Window& window = windows.back();
            uint64_t room = window.offset + window_bytes - begin;
            if (room < tensor.bytes - done) room = round_down(room, 4);
            const uint64_t bytes = std::min(room, tensor.bytes - done);
            window.pieces.push_back({i, done, begin - window.offset, bytes});
            done += bytes;
            end = begin + bytes;
        }
    }
    if (!windows.empty()) close_window(windows.back(), end);
    return windows;
}

Result<void> check_values(const Checkpoint& checkpoint, const File& file, const Load& load,
                          const Piece& piece, const std::byte* data) {
    const Storage storage = load.spec->storage;
    const int64_t bad = first_bad_value(storage, data, piece.bytes);
    if (bad < 0) return {};
    const uint64_t element = piece.from / value_bytes(storage) + static_cast<uint64_t>(bad);
    const File& original = checkpoint.shards()[load.tensor->shard];
    const std::string cure = &file == &original
                                 ? checkpoint.cure({file.path().filename().string()})
                                 : cat("copy it again from ", printable(original.path().string()));
    return fail(
        Code::corrupt,
        cat(printable(file.path().string()), ": tensor ", load.tensor->name, ": element ", element,
            " ", bad_value_text(storage, data[static_cast<uint64_t>(bad) * value_bytes(storage)]),
            "; the file is damaged; ", cure));
}

// Checks windows and copies pieces to host memory, on its own threads, because one thread is slower
// than a drive. The order does not matter: every byte has its own place.
class Helpers {
 public:
    struct Job {
        size_t window;
        uint32_t slot;
        const File* file;  // the copy it was read from
        const std::byte* data;
        Result<void> result = {};
    };

    Helpers(const Checkpoint& checkpoint, const std::vector<Load>& loads,
            const std::vector<Window>& windows, bool copy_all)
        : checkpoint_(checkpoint), loads_(loads), windows_(windows), copy_all_(copy_all) {
        const int wanted = std::clamp(usable_cpus() - 1, 1, helpers_max);
        try {
            while (static_cast<int>(threads_.size()) < wanted) {
                threads_.emplace_back([this] { work(); });
            }
        } catch (const std::system_error&) {
            // Continue with fewer threads, or on the caller's.
        }
    }
    ~Helpers() {
        {
            const std::lock_guard lock(mutex_);
            stop_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void give(Job job) {
        if (threads_.empty()) {
            run(job);
            done_.push_back(std::move(job));
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            waiting_.push_back(std::move(job));
        }
        changed_.notify_one();
    }
    // The finished jobs; with `wait` at least one, which requires an unfinished job.
    std::vector<Job> take(bool wait) {
        std::unique_lock lock(mutex_);
        if (wait) finished_.wait(lock, [this] { return !done_.empty(); });
        return std::exchange(done_, {});
    }

 private:
    void work() {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
            if (stop_) return;
            Job job = std::move(waiting_.front());
            waiting_.erase(waiting_.begin());
            lock.unlock();
            run(job);
            lock.lock();
            done_.push_back(std::move(job));
            finished_.notify_one();
        }
    }
    void run(Job& job) const {
        for (const Piece& piece : windows_[job.window].pieces) {
            const Load& load = loads_[piece.load];
            job.result = check_values(checkpoint_, *job.file, load, piece, job.data + piece.at);
            if (!job.result) return;
            if (!load.host && !copy_all_) continue;
            std::memcpy(load.to + piece.from, job.data + piece.at, piece.bytes);
        }
    }

    const Checkpoint& checkpoint_;
    const std::vector<Load>& loads_;
    const std::vector<Window>& windows_;
    const bool copy_all_;
    std::mutex mutex_;
    std::condition_variable changed_, finished_;
    std::vector<Job> waiting_, done_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

// Reads the files once, in order, and keeps the drives busy.
class Loader : public ReadClient {
 public:
    Loader(const Checkpoint& checkpoint, const std::vector<Load>& loads, ReadRing& ring,
           Backend& backend, std::span<std::byte> staging, const LoadControl& control)
        : checkpoint_(checkpoint),
          loads_(loads),
          ring_(ring),
          backend_(backend),
          staging_(staging),
          control_(control) {}

    Result<LoadReport> run() {
        const auto start = Clock::now();
        PageBuffer own;
        if (auto cut = cut_staging(own); !cut) return tl::unexpected(cut.error());
        windows_ = interleave(plan_windows(loads_, checkpoint_, window_bytes_));
        for (const Load& load : loads_) all_ += load.tensor->bytes;
        Result<void> result = pump();
        // The staging memory must outlive every upload from it and every read into it.
        auto uploaded = backend_.synchronize();
        while (reading_ > 0) {
            auto reaped = ring_.reap(true);
            if (!reaped) return tl::unexpected(reaped.error());
        }
        if (!result) return tl::unexpected(result.error());
        if (!uploaded) return tl::unexpected(uploaded.error());
        const auto end = Clock::now();
        report_.seconds = to_seconds(end - start);
        return report_;
    }

    void read_done(uint64_t tag, std::optional<Error> error) override {
        --reading_;
        arrived_.push_back(static_cast<uint32_t>(tag));
        if (error && !error_) error_ = std::move(error);
    }

 private:
    // Divides the staging memory into slots of one window; allocates `own` if there is too little.
    Result<void> cut_staging(PageBuffer& own) {
        uint64_t least = window_least;
        for (const File& shard : checkpoint_.shards()) {
            least = std::max<uint64_t>(least, 2 * uint64_t{shard.alignment()});
        }
        if (staging_.size() < least * window_slots_least) {
            auto memory = PageBuffer::create(least * window_slots_least, "reading weights");
            if (!memory) return tl::unexpected(memory.error());
            own = std::move(*memory);
            staging_ = own.span();
        }
        window_bytes_ =
            std::min(window_most, round_down(staging_.size() / window_slots_least, least));
        const auto slots = std::min<uint64_t>(window_slots, staging_.size() / window_bytes_);
        for (uint32_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
        return {};
    }

    Result<void> pump() {
        Helpers helpers(checkpoint_, loads_, windows_, backend_.host_memory());
        size_t next = 0, finished = 0, helping = 0;
        while (finished < windows_.size()) {
            if (control_.cancel && control_.cancel->load(std::memory_order_relaxed)) {
                return fail(Code::interrupted, "loading was interrupted");
            }
            while (next < windows_.size() && !free_.empty() && ring_.free() > 0) {
                queue(next++);
            }
            auto reaped = ring_.reap(reading_ > 0);
            if (!reaped) return tl::unexpected(reaped.error());
            if (error_) return tl::unexpected(*error_);
            for (uint32_t slot : arrived_) {
                helpers.give({in_slot_[slot].window, slot, in_slot_[slot].file,
                              staging_.data() + slot * window_bytes_});
                ++helping;
            }
            arrived_.clear();
            const bool starved = reading_ == 0 && helping > 0;
            for (const Helpers::Job& job : helpers.take(starved)) {
                if (!job.result) return job.result;
                place(windows_[job.window], job.data);
                uploading_.emplace_back(backend_.mark_uploads(), job.slot);
                --helping;
                ++finished;
            }
            if (auto freed = free_uploaded(reading_ == 0 && helping == 0); !freed) return freed;
        }
        return {};
    }

    struct Reading {
        size_t window;
        const File* file;  // the first copy tried; the ring falls back to another
    };

    void queue(size_t window) {
        const uint32_t slot = free_.back();
        free_.pop_back();
        const Window& w = windows_[window];
        const File& file = ring_.idlest_copy(*w.file);
        in_slot_[slot] = {window, &file};
        ++reading_;
        report_.bytes += w.needed;
        ring_.queue({&file, w.offset, staging_.data() + slot * window_bytes_, w.length, w.needed,
                     this, slot});
    }

    // Frees slots whose uploads are done; with `wait` at least one, if any is uploading.
    Result<void> free_uploaded(bool wait) {
        while (!uploading_.empty()) {
            const auto [mark, slot] = uploading_.front();
            if (wait) {
                if (auto waited = backend_.wait_uploads(mark); !waited) return waited;
            } else if (!backend_.uploads_done(mark)) {
                break;
            }
            wait = false;
            free_.push_back(slot);
            uploading_.pop_front();
        }
        return {};
    }

    // Uploads and reports progress: only the engine thread may call the backend.
    void place(const Window& window, const std::byte* data) {
        for (const Piece& piece : window.pieces) {
            const Load& load = loads_[piece.load];
            if (!load.host && !backend_.host_memory()) {
                backend_.upload_beside(load.to + piece.from, data + piece.at, piece.bytes);
            }
            done_ += piece.bytes;
        }
        if (control_.progress) control_.progress(done_, all_);
    }

    const Checkpoint& checkpoint_;
    const std::vector<Load>& loads_;
    std::vector<Window> windows_;
    ReadRing& ring_;
    Backend& backend_;
    std::span<std::byte> staging_;
    uint64_t window_bytes_ = 0;
    const LoadControl& control_;
    std::vector<uint32_t> free_, arrived_;
    std::deque<std::pair<uint64_t, uint32_t>> uploading_;  // the backend's mark, and the slot
    std::array<Reading, window_slots> in_slot_{};
    uint32_t reading_ = 0;
    std::optional<Error> error_;
    uint64_t done_ = 0, all_ = 0;
    LoadReport report_;
};

uint64_t home_bytes(const std::vector<TensorSpec>& specs, Home home) {
    uint64_t bytes = 0;
    for (const TensorSpec& spec : specs) {
        if (spec.home == home) bytes += round_up(resident_bytes(spec), place_alignment);
    }
    return bytes;
}

void set_pointer(const TensorSpec& spec, const std::byte* data) {
    std::visit(
        [&](auto address) {
            using A = decltype(address);
            if constexpr (!std::is_same_v<A, std::monostate>) {
                *address = reinterpret_cast<std::remove_pointer_t<A>>(data);
            }
        },
        spec.address);
}

// Scales of wide tiles, read into host memory, which become one scale per tile of 32 x 32.
struct Repeated {
    const TensorSpec* spec;
    std::byte* to;  // of the backend, resident_bytes()
    std::vector<std::byte> read;
};

// Resident row r, column c is row r / repeat, column c / repeat of the file.
void place_repeated(const Repeated& one, Backend& backend) {
    const TensorSpec& spec = *one.spec;
    const uint64_t rows = spec.resident[0], cols = spec.resident[1];
    std::vector<std::byte> all(rows * cols);
    for (uint64_t r = 0; r < rows; ++r) {
        const std::byte* row = one.read.data() + r / spec.repeat * spec.shape[1];
        for (uint64_t c = 0; c < cols; ++c) all[r * cols + c] = row[c / spec.repeat];
    }
    backend.upload(one.to, all.data(), all.size());
}

}  // namespace

uint64_t spec_bytes(const TensorSpec& spec) {
    uint64_t bytes = value_bytes(spec.storage);
    for (uint64_t size : spec.shape) bytes *= size;
    return bytes;
}
uint64_t resident_bytes(const TensorSpec& spec) {
    if (spec.resident.empty()) return spec_bytes(spec);
    uint64_t bytes = value_bytes(spec.storage);
    for (uint64_t size : spec.resident) bytes *= size;
    return bytes;
}
uint64_t dense_bytes(const std::vector<TensorSpec>& specs) {
    return home_bytes(specs, Home::dense);
}
uint64_t host_bytes(const std::vector<TensorSpec>& specs) {
    return home_bytes(specs, Home::host);
}

Result<LoadReport> load_weights(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs,
                                ReadRing& ring, Backend& backend, std::span<std::byte> host,
                                std::span<std::byte> staging, const LoadControl& control) {
    auto dense = backend.allocate(dense_bytes(specs), "dense weights");
    if (!dense) return tl::unexpected(dense.error());
    std::vector<Load> loads;
    std::deque<Repeated> repeated;
    uint64_t dense_used = 0, host_used = 0;
    for (const TensorSpec& spec : specs) {
        if (spec.home != Home::dense && spec.home != Home::host) continue;
        bool on_host = spec.home == Home::host;
        uint64_t& used = on_host ? host_used : dense_used;
        std::byte* to = (on_host ? host.data() : *dense) + used;
        used += round_up(resident_bytes(spec), place_alignment);
        set_pointer(spec, to);
        if (spec.repeat > 1) {
            repeated.push_back({&spec, to, std::vector<std::byte>(spec_bytes(spec))});
            to = repeated.back().read.data();
            on_host = true;
        }
        loads.push_back({&spec, checkpoint.find(spec.name), to, on_host});
    }
    std::sort(loads.begin(), loads.end(), [](const Load& a, const Load& b) {
        return std::pair(a.tensor->shard, a.tensor->offset) <
               std::pair(b.tensor->shard, b.tensor->offset);
    });
    auto report = Loader(checkpoint, loads, ring, backend, staging, control).run();
    if (!report) return report;
    for (const Repeated& one : repeated) place_repeated(one, backend);
    if (auto placed = backend.synchronize(); !placed) return tl::unexpected(placed.error());
    return report;
}

}  // namespace sluice
