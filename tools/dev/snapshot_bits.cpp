// Whether a session restored in a new process gives the bits of the one that was saved.
//
//   snapshot_bits MODEL FOLDER DEVICE save       saves sessions, and checksums of their next logits
//   snapshot_bits MODEL FOLDER DEVICE restore    compares; with other chunks and caches
//
// Half of the snapshots are checkpoints inside a prompt, half are of the session as it is. Prints
// one line; exit code 1 if anything differs.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "io/checksum.h"
#include "io/text.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

constexpr int32_t points[] = {1, 2, 17, 63, 64, 65, 127, 128, 129, 200, 255, 301};
constexpr int32_t prompt = 320, next = 16;

int failed(const Error& error) {
    std::fprintf(stderr, "snapshot_bits: %s\n", error.message.c_str());
    return 1;
}

std::vector<int32_t> tokens() {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < prompt + next; ++i) ids.push_back(10 + i * i % 397);
    return ids;
}

// Of the logits of the tokens that follow.
Result<std::string> bits(Session& session) {
    const std::vector<int32_t> ids = tokens();
    Checksum sum;
    for (int32_t i = 0; i < next; ++i) {
        auto logits = session.feed(std::span(ids).subspan(session.tokens().size(), 1));
        if (!logits) return tl::unexpected(logits.error());
        sum.add(logits->data(), logits->size_bytes());
    }
    return checksum_text(sum.value());
}

Result<void> keep(Session& session, const fs::path& name) {
    if (auto saved = session.save(name); !saved) return saved;
    auto after = bits(session);
    if (!after) return tl::unexpected(after.error());
    std::ofstream(name.string() + ".bits") << *after;
    return {};
}

Result<void> save(Session& session, const fs::path& folder) {
    const std::vector<int32_t> ids = tokens();
    std::vector<std::pair<int32_t, std::vector<std::byte>>> inside;
    session.set_checkpoints({std::begin(points), std::end(points)},
                            [&](int32_t at, std::vector<std::byte> snapshot) {
                                inside.emplace_back(at, std::move(snapshot));
                            });
    if (auto fed = session.feed(std::span(ids).first(prompt)); !fed) {
        return tl::unexpected(fed.error());
    }
    session.set_checkpoints({}, {});
    if (inside.size() != std::size(points)) return fail(Code::mismatch, "checkpoints are missing");
    for (const auto& [at, snapshot] : inside) {
        session.reset();
        if (auto fed = session.feed(std::span(ids).first(static_cast<size_t>(at))); !fed) {
            return tl::unexpected(fed.error());
        }
        const auto plain = session.snapshot();
        if (!plain) return tl::unexpected(plain.error());
        if (*plain != snapshot) {
            return fail(Code::mismatch, cat("the checkpoint after ", at, " tokens is not the "
                                            "snapshot of a session that was fed only that far"));
        }
        if (auto kept = keep(session, folder / cat("after-", at)); !kept) return kept;
    }
    return {};
}

Result<void> restore(Session& session, const fs::path& folder) {
    for (int32_t at : points) {
        const fs::path name = folder / cat("after-", at);
        if (auto restored = session.restore(name); !restored) return restored;
        const auto now = bits(session);
        if (!now) return tl::unexpected(now.error());
        std::string then;
        std::ifstream(name.string() + ".bits") >> then;
        if (then != *now) return fail(Code::mismatch, cat("other bits after ", at, " tokens"));
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return failed({Code::usage, "snapshot_bits MODEL FOLDER DEVICE save|restore"});
    const bool saving = std::string_view(argv[4]) == "save";
    EngineOptions options;
    options.locations = {argv[1]};
    options.device = argv[3];
    if (options.device != "cpu") options.vram = uint64_t{2} << 30;
    options.ram = uint64_t{1} << 30;
    options.context = saving ? 512 : 400;
    options.chunk = saving ? 64 : 48;
    if (!saving) options.cache_slots = 64;
    options.calibrate = Calibrate::off;
    auto engine = Engine::load(options);
    if (!engine) return failed(engine.error());
    auto session = (*engine)->session();
    if (!session) return failed(session.error());
    auto done = saving ? save(**session, argv[2]) : restore(**session, argv[2]);
    if (!done) return failed(done.error());
    std::printf("%zu snapshots, %s\n", std::size(points), saving ? "saved" : "bits equal");
    return 0;
}
