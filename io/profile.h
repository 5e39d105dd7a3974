// The profile: where time goes, as spans of the engine thread and of what runs beside it. Written
// by --profile FILE as JSON that ui.perfetto.dev opens.
//
//   Group ("answer", "pass", "layer")  contains  Leaf ("attention", "wait for drive", "head")
//
// Leaves tile the engine thread's time: a leaf that begins inside another one interrupts it, and
// the outer one continues afterwards as a further span. So the sum of all leaves is the time
// accounted for. (Groups interrupt leaves too.) What runs beside the engine thread (reads, uploads,
// experts on other threads) is added as whole spans on other tracks.
//
// When off (the default), each costs one branch. When on, a clock reading and 56 bytes per span, in
// memory allocated once; spans that do not fit are counted but not kept. Call start() on the main
// thread, Leaf and Group on the engine thread, add() and finish() on any. finish() writes the file
// under a temporary name and renames it, so that a reader finds valid JSON or the file from before.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "io/error.h"

namespace sluice::spans {

enum class Track : uint8_t { engine, drive, uploads, cpu_experts };

// `name` is a string literal. Times come from now(). -1 and 0 mean "none".
struct Span {
    const char* name;
    int64_t begin, end;
    uint64_t bytes;
    uint64_t device;  // drive track: st_dev of the file
    int32_t layer, expert;
    Track track;
    bool group;
};

namespace detail {
extern std::atomic<bool> enabled;
void begin(const char* name, int32_t layer, int32_t expert);
void end();
int64_t cut();  // ends the span of the open leaf and begins its next one; returns the time
int64_t clock();
}  // namespace detail

inline bool on() {
    return detail::enabled.load(std::memory_order_relaxed);
}
inline int64_t now() {  // ns; 0 when off
    return on() ? detail::clock() : 0;
}

constexpr uint32_t spans_max = 1u << 19;  // 28 MiB, two to three minutes of decoding

// Fails (usage) if the file cannot be written: a folder, a device, a missing folder.
Result<void> start(const std::filesystem::path& path, uint32_t capacity = spans_max);
// Stops recording and writes the file; does nothing when off. Other threads may still be adding
// spans: incomplete ones are omitted. A concurrent second call returns when the file is written.
Result<void> finish();

void add(const Span& span);  // ignored when off, or if span.begin is 0 (it began before start())

class Leaf {
 public:
    explicit Leaf(const char* name, int32_t layer = -1, int32_t expert = -1) : open_(on()) {
        if (open_) detail::begin(name, layer, expert);
    }
    ~Leaf() {
        if (open_) detail::end();
    }
    Leaf(const Leaf&) = delete;
    Leaf& operator=(const Leaf&) = delete;

 private:
    bool open_;
};

class Group {
 public:
    explicit Group(const char* name, int32_t layer = -1)
        : name_(name), layer_(layer), begin_(on() ? detail::cut() : 0) {}
    ~Group() {
        if (begin_ != 0) add({name_, begin_, detail::cut(), 0, 0, layer_, -1, Track::engine, true});
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

 private:
    const char* name_;
    int32_t layer_;
    int64_t begin_;
};

}  // namespace sluice::spans
