// Source of io/ring/ring_engine.h: make_uring_engine(), io_uring through liburing, and the reasons
// why it cannot be used.
#include <liburing.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "io/log.h"
#include "io/memory.h"
#include "io/ring/ring_engine.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint32_t files_max = 1024;
constexpr uint32_t buffers_max = 1024;
constexpr size_t buffer_bytes_max = size_t{1} << 30;  // the kernel's limit per buffer
constexpr int submit_tries_max = 1000;                // a millisecond apart
constexpr auto submit_pause = std::chrono::milliseconds(1);

std::string kernel_release() {
    utsname names{};
    return uname(&names) == 0 ? names.release : "unknown";
}

// The likely reason why `call` failed with errno `number`.
Error unavailable(const char* call, int number) {
    std::string why = cat("io_uring cannot be used: ", call, ": ", errno_text(number), ": ");
    int forbidden = 0;
    std::ifstream("/proc/sys/kernel/io_uring_disabled") >> forbidden;
    if (number == EPERM && forbidden == 2) {
        why += "the sysctl kernel.io_uring_disabled=2 forbids it for everyone";
    } else if (number == EPERM && forbidden == 1) {
        why += "the sysctl kernel.io_uring_disabled=1 forbids it for all but kernel.io_uring_group";
    } else if (number == EPERM || number == EACCES) {
        why += "probably a seccomp filter, as containers have by default";
    } else if (number == ENOSYS) {
        why += cat("kernel ", kernel_release(),
                   " was built without it, or a seccomp filter of the container hides it");
    } else if (number == EINVAL || number == EOPNOTSUPP) {
        why += cat("kernel ", kernel_release(), " is too old (5.6 or later is needed)");
    } else if (number == ENOMEM) {
        rlimit limit{};
        getrlimit(RLIMIT_MEMLOCK, &limit);
        why += "no memory for the ring, which some kernels count as locked memory (ulimit -l)";
        if (limit.rlim_cur != RLIM_INFINITY) {
            why += cat("; RLIMIT_MEMLOCK is ", size_text(limit.rlim_cur));
        }
    } else if (number == EMFILE || number == ENFILE) {
        why += "too many open files (ulimit -n)";
    } else {
        why += "unknown reason";
    }
    return {Code::device, cat(why, "; --io threads works without it")};
}

void report_unregistered(size_t wanted, int number) {
    if (number != ENOMEM) {
        log::debug(cat("io_uring: ", size_text(wanted), " not registered: ", errno_text(number)));
        return;
    }
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const std::string allowed = limit.rlim_cur == RLIM_INFINITY ? "is unlimited, so memory is short"
                                                                : "is " + size_text(limit.rlim_cur);
    log::warn_once("RLIMIT_MEMLOCK",
                   cat("read buffers not registered with io_uring: ", size_text(wanted),
                       " more needed, RLIMIT_MEMLOCK ", allowed,
                       "; reads continue with a little more CPU time. To raise it: ulimit -l "
                       "unlimited, memlock in /etc/security/limits.conf, LimitMEMLOCK= of a "
                       "systemd unit, or docker run --ulimit memlock=-1"));
}

class UringEngine final : public RingEngine {
 public:
    ~UringEngine() override {
        if (open_) io_uring_queue_exit(&ring_);
    }
    Result<void> start(uint32_t depth);

    const char* name() const override { return "uring"; }
    Result<void> add_file(int fd) override;
    Result<void> add_memory(std::span<std::byte> memory) override;
    Result<void> submit(std::span<const Raw> reads) override;
    Result<size_t> reap(std::span<RawDone> out, bool wait) override;

 private:
    struct Buffer {
        std::byte* begin;
        size_t bytes;
    };
    Result<void> register_tables();
    Result<void> prove();
    void prepare(const Raw& read);
    int registered_file(int fd) const;
    int registered_buffer(const Raw& read) const;

    io_uring ring_{};
    bool open_ = false;
    uint32_t depth_ = 0;
    uint32_t in_flight_ = 0;
    uint32_t file_slots_ = 0, buffer_slots_ = 0;
    std::vector<int> files_;  // by slot
    std::vector<int> slot_of_fd_;
    std::vector<Buffer> buffers_;  // by slot
};

Result<void> UringEngine::start(uint32_t depth) {
    depth_ = depth;
    // One thread submits and reaps, so completions need not interrupt it. Since kernel 6.1.
    const unsigned modern =
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    int result = io_uring_queue_init(depth, &ring_, modern);
    if (result == -EINVAL) result = io_uring_queue_init(depth, &ring_, 0);
    if (result < 0) return tl::unexpected(unavailable("io_uring_setup", -result));
    open_ = true;
    if (auto tables = register_tables(); !tables) return tables;
    return prove();
}

// Empty tables, filled by add_file() and add_memory(). Kernels before 5.19 do not have them and
// answer EINVAL; a filter that forbids the call would forbid later ones too.
Result<void> UringEngine::register_tables() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const auto files = static_cast<uint32_t>(std::min<rlim_t>(files_max, limit.rlim_cur));
    int result = io_uring_register_files_sparse(&ring_, files);
    if (result == -EPERM || result == -EACCES || result == -ENOSYS) {
        return tl::unexpected(unavailable("io_uring_register", -result));
    }
    if (result >= 0) file_slots_ = files;
    result = io_uring_register_buffers_sparse(&ring_, buffers_max);
    if (result >= 0) buffer_slots_ = buffers_max;
    files_.reserve(file_slots_);
    buffers_.reserve(buffer_slots_);
    return {};
}

// Sandboxes forbid individual calls, and old kernels lack individual operations: only a read that
// completes shows that reads work.
Result<void> UringEngine::prove() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) return tl::unexpected(unavailable("pipe", errno));
    std::byte sent{0x5a}, got{0};
    int result = -EIO;
    const char* call = "io_uring_enter";
    if (write(ends[1], &sent, 1) == 1) {
        io_uring_prep_read(io_uring_get_sqe(&ring_), ends[0], &got, 1, 0);
        result = io_uring_submit_and_wait(&ring_, 1);
    }
    io_uring_cqe* done = nullptr;
    if (result >= 0) result = io_uring_wait_cqe(&ring_, &done);
    if (done != nullptr) {
        call = "a first read";
        result = done->res == 1 && got != sent ? -EIO : done->res;
        io_uring_cqe_seen(&ring_, done);
    }
    close(ends[0]);
    close(ends[1]);
    if (result < 0) return tl::unexpected(unavailable(call, -result));
    return {};
}

Result<void> UringEngine::add_file(int fd) {
    assert(fd >= 0);
    if (registered_file(fd) >= 0 || files_.size() == file_slots_) return {};
    const auto slot = static_cast<unsigned>(files_.size());
    const int result = io_uring_register_files_update(&ring_, slot, &fd, 1);
    if (result < 0) {
        log::debug(cat("io_uring: a file not registered: ", errno_text(-result)));
        return {};
    }
    files_.push_back(fd);
    if (slot_of_fd_.size() <= static_cast<size_t>(fd)) slot_of_fd_.resize(fd + size_t{1}, -1);
    slot_of_fd_[fd] = static_cast<int>(slot);
    return {};
}

Result<void> UringEngine::add_memory(std::span<std::byte> memory) {
    for (size_t at = 0; at < memory.size() && buffers_.size() < buffer_slots_;) {
        const size_t bytes = std::min(memory.size() - at, buffer_bytes_max);
        iovec piece{.iov_base = memory.data() + at, .iov_len = bytes};
        __u64 tag = 0;
        const auto slot = static_cast<unsigned>(buffers_.size());
        const int result = io_uring_register_buffers_update_tag(&ring_, slot, &piece, &tag, 1);
        if (result < 0) {
            report_unregistered(memory.size(), -result);
            return {};
        }
        buffers_.push_back({memory.data() + at, bytes});
        at += bytes;
    }
    return {};
}

int UringEngine::registered_file(int fd) const {
    return static_cast<size_t>(fd) < slot_of_fd_.size() ? slot_of_fd_[fd] : -1;
}

// There are only a few: one for each arena and GiB.
int UringEngine::registered_buffer(const Raw& read) const {
    const auto begin = reinterpret_cast<uintptr_t>(read.to);
    for (size_t slot = 0; slot < buffers_.size(); ++slot) {
        const auto first = reinterpret_cast<uintptr_t>(buffers_[slot].begin);
        const uintptr_t last = first + buffers_[slot].bytes;
        if (begin >= first && begin + read.length <= last) return static_cast<int>(slot);
    }
    return -1;
}

void UringEngine::prepare(const Raw& read) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    assert(sqe != nullptr);  // the queue has room for all reads in flight
    const int file = registered_file(read.fd);
    const int buffer = registered_buffer(read);
    const int target = file >= 0 ? file : read.fd;
    if (buffer >= 0) {
        io_uring_prep_read_fixed(sqe, target, read.to, read.length, read.offset, buffer);
    } else {
        io_uring_prep_read(sqe, target, read.to, read.length, read.offset);
    }
    if (file >= 0) io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data64(sqe, read.id);
}

Result<void> UringEngine::submit(std::span<const Raw> reads) {
    in_flight_ += static_cast<uint32_t>(reads.size());
    assert(in_flight_ <= depth_);
    for (const Raw& read : reads) prepare(read);
    for (int tries = 0; io_uring_sq_ready(&ring_) > 0;) {
        const int result = io_uring_submit(&ring_);
        if (result > 0 || result == -EINTR) continue;
        const bool busy = result == 0 || result == -EAGAIN || result == -EBUSY;
        if (!busy || ++tries > submit_tries_max) {
            const char* hint = result == -EEXIST ? " (the ring belongs to another thread)" : "";
            return fail(Code::io, cat("io_uring_enter: ", errno_text(-result), hint));
        }
        std::this_thread::sleep_for(submit_pause);
    }
    return {};
}

Result<size_t> UringEngine::reap(std::span<RawDone> out, bool wait) {
    assert(!out.empty() && (!wait || in_flight_ > 0));
    std::array<io_uring_cqe*, 64> done;
    const auto room = static_cast<unsigned>(std::min(out.size(), done.size()));
    unsigned count = io_uring_peek_batch_cqe(&ring_, done.data(), room);
    while (count == 0 && wait) {
        io_uring_cqe* first = nullptr;
        const int result = io_uring_wait_cqe(&ring_, &first);
        if (result < 0 && result != -EINTR && result != -EAGAIN) {
            return fail(Code::io, cat("io_uring_enter: ", errno_text(-result)));
        }
        count = io_uring_peek_batch_cqe(&ring_, done.data(), room);
    }
    for (unsigned i = 0; i < count; ++i) {
        const auto id = static_cast<uint32_t>(io_uring_cqe_get_data64(done[i]));
        out[i] = {.id = id, .result = done[i]->res};
    }
    io_uring_cq_advance(&ring_, count);
    in_flight_ -= count;
    return count;
}

}  // namespace

Result<std::unique_ptr<RingEngine>> make_uring_engine(const RingOptions& options) {
    auto engine = std::make_unique<UringEngine>();
    auto started = engine->start(options.depth);
    if (!started) return tl::unexpected(std::move(started).error());
    return engine;
}

}  // namespace sluice
