#include "io/profile.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "io/json.h"
#include "io/log.h"
#include "io/mount.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice::spans {

namespace detail {
std::atomic<bool> enabled = false;
}

namespace {

namespace fs = std::filesystem;

constexpr const char* head = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
constexpr size_t depth_max = 8;
constexpr int lanes_max = 1000;  // a track's thread ids: track * lanes_max + lane

struct Open {
    const char* name;
    int32_t layer, expert;
    int64_t begin;
};

struct Free {
    void operator()(Span* spans) const { std::free(spans); }
};

struct Recorder {
    fs::path path;
    // Zeroed: a span without a name is not complete. Pages become resident as they are written, and
    // are kept until the next start() because a late writer may still be using them.
    std::unique_ptr<Span[], Free> spans;
    uint32_t capacity = 0;
    std::atomic<uint32_t> next{0};
    std::atomic<uint64_t> dropped{0};
    std::array<Open, depth_max> open{};  // leaves of the engine thread
    size_t depth = 0;
    int64_t started = 0;
};
Recorder recorder;
std::mutex finishing;

void add_leaf(const Open& leaf, int64_t end) {
    if (end <= leaf.begin) return;
    add({leaf.name, leaf.begin, end, 0, 0, leaf.layer, leaf.expert, Track::engine, false});
}

std::string track_name(const Span& span) {
    switch (span.track) {
        case Track::engine:
            return "engine";
        case Track::drive: {
            const std::string name = drive_name(span.device);
            return cat("drive ", name.empty() ? cat(span.device) : name);
        }
        case Track::uploads:
            return "uploads";
        case Track::cpu_experts:
            return "CPU experts";
    }
    return "";
}

// Puts spans that overlap on a track in lanes side by side. Each lane is a thread in the file.
class Lanes {
 public:
    int place(const Span& span) {
        const auto key = std::pair(span.track, span.device);
        const auto [found, fresh] = tracks_.try_emplace(key);
        if (fresh) found->second.number = static_cast<int>(tracks_.size());
        std::vector<int64_t>& ends = found->second.ends;
        size_t lane = 0;
        // The spans of the engine thread nest: they share one lane.
        if (span.track != Track::engine) {
            while (lane < ends.size() && ends[lane] > span.begin) ++lane;
            lane = std::min<size_t>(lane, lanes_max - 1);
        }
        if (lane == ends.size()) {
            ends.push_back(0);
            names_.emplace_back(found->second.number * lanes_max + static_cast<int>(lane),
                                lane == 0 ? track_name(span) : cat(track_name(span), " +", lane));
        }
        ends[lane] = std::max(ends[lane], span.end);
        return found->second.number * lanes_max + static_cast<int>(lane);
    }
    const std::vector<std::pair<int, std::string>>& names() const { return names_; }

 private:
    struct One {
        int number = 0;
        std::vector<int64_t> ends;  // of the last span in each lane
    };
    std::map<std::pair<Track, uint64_t>, One> tracks_;
    std::vector<std::pair<int, std::string>> names_;
};

void write_span(std::FILE* file, const Span& span, int thread, bool first) {
    const auto us = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
    std::fprintf(file, "%s\n{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,",
                 first ? "" : ",", thread, us(span.begin - recorder.started),
                 us(span.end - span.begin));
    std::fprintf(file, "\"cat\":\"%s\",\"name\":\"%s\",\"args\":{", span.group ? "group" : "leaf",
                 span.name);
    const char* comma = "";
    const auto number = [&](const char* name, long long value) {
        std::fprintf(file, "%s\"%s\":%lld", comma, name, value);
        comma = ",";
    };
    if (span.layer >= 0) number("layer", span.layer);
    if (span.expert >= 0) number("expert", span.expert);
    if (span.bytes > 0) number("bytes", static_cast<long long>(span.bytes));
    std::fputs("}}", file);
}

void write_all(std::FILE* file, std::vector<const Span*>& order) {
    std::sort(order.begin(), order.end(), [](const Span* a, const Span* b) {
        return std::tuple(a->begin, !a->group, -a->end) < std::tuple(b->begin, !b->group, -b->end);
    });
    Lanes lanes;
    bool first = true;
    std::fputs(head, file);
    for (const Span* span : order) {
        write_span(file, *span, lanes.place(*span), first);
        first = false;
    }
    for (const auto& [thread, name] : lanes.names()) {
        std::fprintf(file,
                     "%s\n{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":"
                     "{\"name\":%s}}",
                     first ? "" : ",", thread, json_quote(name).c_str());
        first = false;
    }
    std::fprintf(file, "\n],\"otherData\":{\"spans\":%zu,\"dropped\":%llu}}\n", order.size(),
                 static_cast<unsigned long long>(recorder.dropped.load()));
}

Error write_error(const fs::path& path, std::string_view why) {
    return {Code::io, cat("--profile ", printable(path.string()), ": ", why)};
}

}  // namespace

namespace detail {

int64_t clock() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

int64_t cut() {
    const int64_t time = clock();
    if (recorder.depth > 0) {
        Open& leaf = recorder.open[recorder.depth - 1];
        add_leaf(leaf, time);
        leaf.begin = time;
    }
    return time;
}

void begin(const char* name, int32_t layer, int32_t expert) {
    const int64_t time = cut();
    assert(recorder.depth < depth_max);
    recorder.open[recorder.depth++] = {name, layer, expert, time};
}

void end() {
    const int64_t time = cut();
    --recorder.depth;
    if (recorder.depth > 0) recorder.open[recorder.depth - 1].begin = time;
}

}  // namespace detail

Result<void> start(const fs::path& path, uint32_t capacity) {
    auto target = output_file("--profile", path, head);
    if (!target) return tl::unexpected(std::move(target).error());
    recorder.path = std::move(*target);
    recorder.capacity = capacity;
    recorder.spans.reset(static_cast<Span*>(std::calloc(capacity, sizeof(Span))));
    if (!recorder.spans) return fail(Code::no_memory, "--profile: no memory for its spans");
    recorder.next = 0;
    recorder.dropped = 0;
    recorder.depth = 0;
    recorder.started = detail::clock();
    detail::enabled = true;
    return {};
}

void add(const Span& span) {
    if (!on() || span.begin == 0) return;
    const uint32_t at = recorder.next.fetch_add(1, std::memory_order_relaxed);
    if (at < recorder.capacity) {
        Span& place = recorder.spans[at];
        // The name comes last: it is the only field that finish() may read meanwhile.
        place.begin = span.begin;
        place.end = span.end;
        place.bytes = span.bytes;
        place.device = span.device;
        place.layer = span.layer;
        place.expert = span.expert;
        place.track = span.track;
        place.group = span.group;
        std::atomic_ref(place.name).store(span.name, std::memory_order_release);
        return;
    }
    recorder.next.store(recorder.capacity, std::memory_order_relaxed);  // never wraps
    recorder.dropped.fetch_add(1, std::memory_order_relaxed);
}

Result<void> finish() {
    const std::lock_guard lock(finishing);
    if (!detail::enabled.exchange(false)) return {};
    std::vector<const Span*> order;
    const uint32_t count = std::min(recorder.next.load(), recorder.capacity);
    for (uint32_t i = 0; i < count; ++i) {
        Span& span = recorder.spans[i];
        if (std::atomic_ref(span.name).load(std::memory_order_acquire)) order.push_back(&span);
    }
    std::string name = recorder.path.string() + ".XXXXXX";
    const int fd = ::mkstemp(name.data());
    std::FILE* file = fd < 0 ? nullptr : ::fdopen(fd, "w");
    if (!file) return tl::unexpected(write_error(recorder.path, errno_text(errno)));
    write_all(file, order);
    bool done = std::ferror(file) == 0;
    ::fchmod(fd, 0644);  // readable by others, as files usually are
    done = std::fclose(file) == 0 && done;
    done = done && ::rename(name.c_str(), recorder.path.c_str()) == 0;
    const int cause = errno;
    if (const uint64_t lost = recorder.dropped.load(); done && lost > 0) {
        log::warn(cat("--profile: the last ", lost, " spans did not fit and were dropped"));
    }
    if (done) return {};
    ::unlink(name.c_str());
    return tl::unexpected(write_error(recorder.path, errno_text(cause)));
}

}  // namespace sluice::spans
