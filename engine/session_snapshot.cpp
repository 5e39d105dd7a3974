// Snapshots of a session, declared in engine/session.h.
#include <algorithm>
#include <cstring>

#include "engine/engine_impl.h"
#include "engine/snapshot/snapshot_file.h"
#include "engine/snapshot/snapshot_identity.h"
#include "io/text.h"

namespace sluice {

namespace {

Result<SnapshotIdentity> identity(Session::Impl& s) {
    std::optional<SnapshotIdentity>& known = s.engine->identity;
    if (!known) {
        const Runtime& rt = s.rt();
        auto made =
            snapshot_identity(rt.checkpoint, device_kind(rt.settings.device, rt.backend->name()),
                              rt.options.index_keys);
        if (!made) return made;
        known = std::move(*made);
    }
    return *known;
}

// Whether this session can continue from a snapshot with this header.
Result<void> check_header(Session::Impl& s, const SnapshotHeader& header) {
    const auto own = identity(s);
    if (!own) return tl::unexpected(own.error());
    if (auto same = check_identity(header.identity, *own); !same) return same;
    const State& state = s.state();
    if (header.position > state.context()) {
        return fail(Code::usage, cat("holds ", header.position, " tokens, but the context only ",
                                     state.context(), "; raise it with -c"));
    }
    const ModelConfig& c = s.rt().config;
    const int32_t layer = header.published;
    const bool published =
        layer == -1 || (layer >= 0 && layer < c.layers && c.owns_rows(layer));
    if (!published) {
        return fail(Code::corrupt, cat("layer ", header.published,
                                       " of its header has no index keys; feed its tokens again"));
    }
    return check_layout(header, state.parts(header.position));
}

// The contents of the sections, once all of them are known to be sound.
Result<void> adopt(Session::Impl& s, const SnapshotHeader& header,
                   std::span<const std::byte> snapshot) {
    if (auto sound = check_sections(header, snapshot); !sound) return sound;
    std::vector<int32_t> ids(static_cast<size_t>(header.position));
    std::vector<std::span<const std::byte>> contents;
    for (const SnapshotSection& section : header.sections) {
        const auto bytes = snapshot.subspan(section.offset, section.bytes);
        if (section.kind != StateKind::tokens) {
            contents.push_back(bytes);
        } else if (!bytes.empty()) {
            std::memcpy(ids.data(), bytes.data(), bytes.size());
        }
    }
    for (int32_t id : ids) {
        if (id >= 0 && id < s.rt().config.vocab) continue;
        return fail(Code::corrupt, cat("token id ", id, " is outside the vocabulary of ",
                                       s.rt().config.vocab, "; feed its tokens again"));
    }
    return s.state().adopt(std::move(ids), header.published, contents);
}

Result<void> restore_bytes(Session::Impl& s, std::span<const std::byte> snapshot) {
    const auto header = read_snapshot_header(snapshot, snapshot.size());
    if (!header) return tl::unexpected(header.error());
    if (auto fits = check_header(s, *header); !fits) return fits;
    return adopt(s, *header, snapshot);
}

// After the first `position` tokens; earlier than the present ones only at a checkpoint.
Result<SnapshotBytes> snapshot_at(Session::Impl& s, int32_t position) {
    const auto own = identity(s);
    if (!own) return tl::unexpected(own.error());
    const State& state = s.state();
    const std::vector<StatePart> parts = state.parts(position);
    const auto fill = [&](size_t i, std::span<std::byte> to) -> Result<void> {
        const auto copied = s.checkpoints.copied(position, parts[i].kind, parts[i].layer);
        if (copied.empty()) {
            return s.rt().backend->download(to.data(), parts[i].device, to.size());
        }
        std::ranges::copy(copied, to.begin());
        return {};
    };
    // Own index keys do not read which were published last, and chunks decide it.
    const int32_t published = own->index_keys == IndexKeys::reference ? state.published : -1;
    const auto ids = std::span(state.tokens()).first(static_cast<size_t>(position));
    return pack_snapshot(*own, published, ids, parts, fill);
}

}  // namespace

Result<std::vector<std::byte>> Session::snapshot() const {
    return snapshot_at(*impl_, impl_->state().position());
}

Result<void> deliver_checkpoints(Session::Impl& s) {
    for (int32_t position : s.checkpoints.complete(s.state().position())) {
        auto bytes = snapshot_at(s, position);
        s.checkpoints.drop(position);
        if (!bytes) return tl::unexpected(bytes.error());
        s.receive_checkpoint(position, std::move(*bytes));
    }
    return {};
}

void Session::set_checkpoints(std::vector<int32_t> positions, CheckpointReceiver receive) {
    if (!receive) positions.clear();
    impl_->checkpoints.set(std::move(positions));
    impl_->receive_checkpoint = std::move(receive);
}

uint64_t Session::snapshot_bytes(int32_t tokens) const {
    return State::snapshot_bytes(impl_->rt().config, tokens);
}

Result<std::string> Session::snapshot_kind() const {
    const auto own = identity(*impl_);
    if (!own) return tl::unexpected(own.error());
    return identity_text(*own);
}

Result<void> Session::save(const std::filesystem::path& file) const {
    const auto bytes = snapshot();
    if (!bytes) return tl::unexpected(bytes.error());
    return write_snapshot_file(file, *bytes);
}

Result<void> Session::restore(std::span<const std::byte> snapshot) {
    auto done = restore_bytes(*impl_, snapshot);
    if (!done) return within("snapshot", done.error());
    return done;
}

Result<void> Session::restore(const std::filesystem::path& file) {
    const auto fits = [&](const SnapshotHeader& header) { return check_header(*impl_, header); };
    const auto bytes = read_snapshot_file(file, fits);
    if (!bytes) return tl::unexpected(bytes.error());
    auto done = restore_bytes(*impl_, *bytes);
    if (!done) return within(cat("snapshot ", printable(file.native())), done.error());
    return done;
}

}  // namespace sluice
