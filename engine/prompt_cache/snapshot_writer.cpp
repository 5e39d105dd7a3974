#include "engine/prompt_cache/snapshot_writer.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "io/log.h"

namespace sluice {

// Signals are for the thread that reads the terminal.
SnapshotWriter::SnapshotWriter(const DiskSnapshots& disk) : disk_(disk) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
        log::warn_once("prompt cache thread",
                       "--prompt-cache: no thread could be started, so nothing is written to disk");
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SnapshotWriter::~SnapshotWriter() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

bool SnapshotWriter::write(SnapshotKey key, SharedSnapshot snapshot) {
    if (!thread_.joinable()) return false;
    {
        const std::lock_guard lock(mutex_);
        if (std::ranges::find(queue_, key, &Item::key) != queue_.end()) return true;
        if (queue_.size() >= queue_max) return false;
        queue_.push_back({key, std::move(snapshot)});
    }
    changed_.notify_all();
    return true;
}

void SnapshotWriter::flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty(); });
}

uint64_t SnapshotWriter::written() const {
    const std::lock_guard lock(mutex_);
    return written_;
}

void SnapshotWriter::work() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const Item& item = queue_.front();  // stays in place while others are added behind it
        lock.unlock();
        const bool done = disk_.write(item.key, *item.snapshot);
        lock.lock();
        written_ += done;
        queue_.pop_front();
        changed_.notify_all();
    }
}

}  // namespace sluice
