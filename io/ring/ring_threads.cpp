// Source of io/ring/ring_engine.h: make_threads_engine(), reads by threads that block in pread, for
// machines without io_uring.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "io/ring/ring_engine.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint32_t threads_max_default = 32;

// First in, first out; holds `capacity` and never grows.
template <class T>
class FixedQueue {
 public:
    explicit FixedQueue(size_t capacity) : items_(capacity) {}
    bool empty() const { return size_ == 0; }
    void push(const T& item) {
        assert(size_ < items_.size());
        items_[(begin_ + size_++) % items_.size()] = item;
    }
    T pop() {
        const T item = items_[begin_];
        begin_ = (begin_ + 1) % items_.size();
        --size_;
        return item;
    }

 private:
    std::vector<T> items_;
    size_t begin_ = 0;
    size_t size_ = 0;
};

class ThreadsEngine final : public RingEngine {
 public:
    explicit ThreadsEngine(uint32_t depth) : depth_(depth), waiting_(depth), done_(depth) {}
    ~ThreadsEngine() override;

    Result<void> start(uint32_t threads);

    const char* name() const override { return "threads"; }
    Result<void> add_file(int) override { return {}; }
    Result<void> add_memory(std::span<std::byte>) override { return {}; }
    Result<void> submit(std::span<const Raw> reads) override;
    Result<size_t> reap(std::span<RawDone> out, bool wait) override;

 private:
    void work();

    const uint32_t depth_;
    uint32_t in_flight_ = 0;  // submitted and not reaped; only for the caller's thread
    std::mutex mutex_;
    std::condition_variable work_there_, done_there_;
    FixedQueue<Raw> waiting_;
    FixedQueue<RawDone> done_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

ThreadsEngine::~ThreadsEngine() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    work_there_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

Result<void> ThreadsEngine::start(uint32_t threads) {
    // The new threads block all signals: others handle them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::string cause;
    try {
        threads_.reserve(threads);
        while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
        cause = error.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (threads_.empty()) {
        return fail(Code::no_memory, cat("cannot start a thread for reading: ", cause,
                                         "; see ulimit -u and the pids limit of the container"));
    }
    return {};
}

void ThreadsEngine::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        work_there_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (stop_) return;
        const Raw read = waiting_.pop();
        lock.unlock();
        const ssize_t got = pread(read.fd, read.to, read.length, static_cast<off_t>(read.offset));
        const int64_t result = got < 0 ? -int64_t{errno} : got;
        lock.lock();
        done_.push({.id = read.id, .result = result});
        done_there_.notify_one();
    }
}

Result<void> ThreadsEngine::submit(std::span<const Raw> reads) {
    in_flight_ += static_cast<uint32_t>(reads.size());
    assert(in_flight_ <= depth_);
    {
        const std::lock_guard lock(mutex_);
        for (const Raw& read : reads) waiting_.push(read);
    }
    for (size_t i = 0; i < std::min(reads.size(), threads_.size()); ++i) work_there_.notify_one();
    return {};
}

Result<size_t> ThreadsEngine::reap(std::span<RawDone> out, bool wait) {
    assert(!out.empty() && (!wait || in_flight_ > 0));
    std::unique_lock lock(mutex_);
    if (wait) done_there_.wait(lock, [this] { return !done_.empty(); });
    size_t count = 0;
    while (count < out.size() && !done_.empty()) out[count++] = done_.pop();
    in_flight_ -= static_cast<uint32_t>(count);
    return count;
}

}  // namespace

Result<std::unique_ptr<RingEngine>> make_threads_engine(const RingOptions& options) {
    auto engine = std::make_unique<ThreadsEngine>(options.depth);
    const uint32_t wanted = options.threads != 0 ? options.threads : threads_max_default;
    auto started = engine->start(std::min(wanted, options.depth));
    if (!started) return tl::unexpected(std::move(started).error());
    return engine;
}

}  // namespace sluice
