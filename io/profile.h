// Where time goes: spans of the engine thread and of what runs beside it, for --profile FILE.
//
//   Group ("answer", "pass", "layer")  contains  Leaf ("attention", "wait for drive", "head")
//
// Leaves tile the engine thread's time: one that begins inside another ends the outer one's piece,
// which goes on after it, so their sum is the time that is accounted for (groups cut pieces too).
// What runs beside the engine thread (reads, uploads, experts on other threads) is added as whole
// spans on other tracks.
//
// Off (the default) each costs one branch. On: a clock reading and 56 bytes a span, in memory taken
// once; spans beyond it are counted, not kept. start() on the main thread; Leaf and Group on the
// engine's; add() and finish() on any. The file is written in one piece by finish(), beside its
// name and then renamed: whoever reads it finds valid JSON, or what was there before.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "io/error.h"

namespace sluice::spans {

enum class Track : uint8_t { engine, drive, uploads, cpu_experts };

// `name` is a literal. Times are of now(). -1 and 0 mean "none".
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
int64_t cut();  // ends the open leaf's piece and begins its next one; the time of the cut
int64_t clock();
}  // namespace detail

inline bool on() {
    return detail::enabled.load(std::memory_order_relaxed);
}
inline int64_t now() {  // ns; 0 when off
    return on() ? detail::clock() : 0;
}

constexpr uint32_t spans_max = 1u << 19;  // 28 MiB, two to three minutes of decoding

// Fails (usage) for what no file can be written to: a folder, a device, a missing folder.
Result<void> start(const std::filesystem::path& path, uint32_t capacity = spans_max);
// Writes the file and stops recording; nothing to do when off. Others may be adding still: what is
// not complete by then is left out. Two at once: the later one returns when the file is there.
Result<void> finish();

void add(const Span& span);  // nothing when off or when span.begin is 0 (it began before)

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
