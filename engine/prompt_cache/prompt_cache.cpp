#include "engine/prompt_cache/prompt_cache.h"

#include <algorithm>
#include <utility>

#include "io/log.h"
#include "io/text.h"

namespace sluice {

namespace {

// One snapshot at a time is being made or read besides those that are kept.
uint64_t room_for_kept(const Engine& engine, const Session& session) {
    const bool splits_change_results = engine.options().index_keys == IndexKeys::reference;
    const uint64_t all = splits_change_results ? 0 : engine.settings().prompt_cache_ram;
    return all - std::min(all / 2, session.snapshot_bytes(engine.settings().context));
}

void warn(const std::string& what) {
    log::warn_once("prompt cache: " + what, "--prompt-cache: " + what);
}

}  // namespace

const char* kept_by_name(KeptBy by) {
    switch (by) {
        case KeptBy::nothing:
            return "nothing";
        case KeptBy::session:
            return "session";
        case KeptBy::memory:
            return "memory";
        case KeptBy::disk:
            return "disk";
    }
    return "nothing";
}

PromptCache::PromptCache(const Engine& engine, Session& session, const PromptCacheOptions& options)
    : session_(session), memory_(room_for_kept(engine, session)) {
    if (!on() || options.folder.empty()) return;
    const auto kind = session.snapshot_kind();
    if (!kind) {
        warn(cat("nothing is kept on disk: ", kind.error().message));
        return;
    }
    disk_.emplace(options.folder, *kind, options.disk_bytes);
    writer_ = std::make_unique<SnapshotWriter>(*disk_);
}

PromptCache::~PromptCache() {
    session_.set_checkpoints({}, {});
}

std::vector<SnapshotKey> PromptCache::stored() const {
    std::vector<SnapshotKey> keys = memory_.keys();
    if (!disk_) return keys;
    const std::vector<SnapshotKey> files = disk_->keys();
    keys.insert(keys.end(), files.begin(), files.end());
    return keys;
}

Result<Kept> PromptCache::resume(std::span<const int32_t> prompt) {
    const auto own = session_.rewind_to_prefix(prompt);
    if (!own) return tl::unexpected(own.error());
    const Kept kept{*own, *own > 0 ? KeptBy::session : KeptBy::nothing};
    if (!on()) return kept;
    for (const SnapshotKey& key : prefixes_among(stored(), prompt, *own)) {
        Kept restored{key.tokens, KeptBy::nothing};
        const auto ids = prompt.first(static_cast<size_t>(key.tokens));
        const auto done = restore(key, ids, restored.by);
        if (!done) return tl::unexpected(done.error());
        if (*done) return restored;
    }
    return kept;
}

// False: not this one. An error leaves an empty session.
Result<bool> PromptCache::restore(SnapshotKey key, std::span<const int32_t> ids, KeptBy& by) {
    const Found found = find(key);
    if (!found.bytes) return false;
    by = found.by;
    Result<void> done = fail(Code::corrupt, "it holds other tokens than its name says");
    if (holds_ids(*found.bytes, ids)) done = session_.restore(*found.bytes);
    if (!done && done.error().code == Code::device) return tl::unexpected(done.error());
    if (!done) {
        set_aside(key, done.error());
        return false;
    }
    ++(by == KeptBy::disk ? counters_.from_disk : counters_.from_memory);
    if (disk_) (void)disk_->use(key);
    if (by == KeptBy::disk) (void)memory_.put(key, found.bytes);
    return true;
}

PromptCache::Found PromptCache::find(SnapshotKey key) {
    if (SharedSnapshot bytes = memory_.use(key)) return {std::move(bytes), KeptBy::memory};
    if (!disk_) return {};
    return {read(key), KeptBy::disk};
}

SharedSnapshot PromptCache::read(SnapshotKey key) {
    const auto accept = [&](const SnapshotHeader& header) -> Result<void> {
        if (header.position != key.tokens) {
            return fail(Code::corrupt, "it holds other tokens than its name says");
        }
        if (memory_.make_room(header.bytes)) return {};
        return fail(Code::no_memory, "no room");
    };
    auto bytes = disk_->read(key, accept);
    if (bytes) return std::make_shared<const std::vector<std::byte>>(std::move(*bytes));
    const Code code = bytes.error().code;
    // Another process may have removed it in the meantime.
    if (code != Code::not_found && code != Code::no_memory) set_aside(key, bytes.error());
    return nullptr;
}

void PromptCache::set_aside(SnapshotKey key, const Error& error) {
    memory_.remove(key);
    if (error.code != Code::corrupt) return warn(error.message);
    ++counters_.damaged;
    log::warn(cat("--prompt-cache: removed ", file_name(key), ": ", error.message));
    if (disk_) disk_->remove(key);
}

bool PromptCache::holds(SnapshotKey key) {
    const SharedSnapshot kept = memory_.use(key);
    if (!disk_ || disk_->use(key)) return disk_.has_value() || kept;
    if (kept) (void)writer_->write(key, kept);  // its file is gone, or still to be written
    return kept != nullptr;
}

void PromptCache::put(SnapshotKey key, std::vector<std::byte> snapshot) {
    // A state computed from files that were written to meanwhile belongs to no model.
    if (!session_.files_unchanged()) return;
    const auto shared = std::make_shared<const std::vector<std::byte>>(std::move(snapshot));
    if (!memory_.put(key, shared)) {
        ++counters_.dropped;
        return;
    }
    ++counters_.stored;
    if (writer_ && !writer_->write(key, shared)) ++counters_.dropped;
}

void PromptCache::watch(std::span<const int32_t> prompt, std::vector<int32_t> positions) {
    const auto unwanted = [&](int32_t position) {
        const auto tokens = static_cast<size_t>(position);
        return position <= session_.position() || tokens > prompt.size() ||
               session_.snapshot_bytes(position) > memory_.bytes_max() ||
               holds(key_of(prompt.first(tokens)));
    };
    std::erase_if(positions, unwanted);
    session_.set_checkpoints(
        std::move(positions), [this](int32_t position, std::vector<std::byte> snapshot) {
            const auto ids = std::span(session_.tokens()).first(static_cast<size_t>(position));
            put(key_of(ids), std::move(snapshot));
        });
}

void PromptCache::store() {
    const std::vector<int32_t>& ids = session_.tokens();
    if (!on() || ids.empty()) return;
    const SnapshotKey key = key_of(ids);
    if (holds(key)) return;
    if (!memory_.make_room(session_.snapshot_bytes(key.tokens))) {
        ++counters_.dropped;
        return;
    }
    auto bytes = session_.snapshot();
    if (!bytes) return warn(cat("a state was not kept: ", bytes.error().message));
    put(key, std::move(*bytes));
}

void PromptCache::flush() {
    if (writer_) writer_->flush();
}

PromptCache::Counters PromptCache::counters() const {
    Counters out = counters_;
    if (writer_) out.written = writer_->written();
    return out;
}

}  // namespace sluice
