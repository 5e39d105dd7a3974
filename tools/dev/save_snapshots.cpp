// Saves snapshots for as long as it lives, so that tests/dev/kill_saves.py can end it in between.
//
//   save_snapshots MODEL FOLDER         says after every save what is complete by now
//   save_snapshots MODEL FOLDER check   restores all of FOLDER; exit code 1 if anything fails
//
// FOLDER/one is saved again and again; FOLDER/prompts is a prompt cache that gets one file each
// time. The tokens are the same in every run, so that a snapshot's position says which one it is.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/prompt_cache/prompt_cache.h"
#include "io/text.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

constexpr int32_t context = 4096, begin = 1024;

int failed(const Error& error) {
    std::fprintf(stderr, "save_snapshots: %s\n", error.message.c_str());
    return 1;
}

void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
}

std::vector<int32_t> tokens(int32_t count) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < count; ++i) ids.push_back(10 + i * i % 397);
    return ids;
}

Result<void> save(Session& session, PromptCache& prompts, const fs::path& folder) {
    const std::vector<int32_t> ids = tokens(context);
    if (auto fed = session.feed(std::span(ids).first(begin)); !fed) {
        return tl::unexpected(fed.error());
    }
    while (session.position() < context) {
        if (auto saved = session.save(folder / "one"); !saved) return saved;
        say(cat("one ", session.position()));
        prompts.store();
        prompts.flush();
        say(cat("prompts ", file_name(key_of(session.tokens()))));
        const auto next = std::span(ids).subspan(session.tokens().size(), 1);
        if (auto fed = session.feed(next); !fed) return tl::unexpected(fed.error());
    }
    return {};
}

Result<void> check(Session& session, const fs::path& folder) {
    const std::vector<int32_t> ids = tokens(context);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (!entry.is_regular_file()) continue;
        const std::string name = entry.path().filename().string();
        if (name != "one" && !parse_file_name(name)) {
            say(cat("unfinished ", name));
            continue;
        }
        if (auto restored = session.restore(entry.path()); !restored) return restored;
        const auto count = static_cast<size_t>(session.position());
        const bool right = key_of(session.tokens()) == key_of(std::span(ids).first(count));
        if (!right) return fail(Code::mismatch, cat(name, " holds other tokens"));
        if (name == "one") {
            say(cat("one ", count));
        } else if (name == file_name(key_of(session.tokens()))) {
            say(cat("prompts ", name));
        } else {
            return fail(Code::mismatch, cat(name, " holds ", count, " tokens"));
        }
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return failed({Code::usage, "save_snapshots MODEL FOLDER [check]"});
    EngineOptions options;
    options.locations = {argv[1]};
    options.device = "cpu";
    options.context = context;
    options.ram = uint64_t{512} << 20;
    options.threads = 1;
    options.calibrate = Calibrate::off;
    options.prompt_snapshots = 8;
    auto engine = Engine::load(options);
    if (!engine) return failed(engine.error());
    auto session = (*engine)->session();
    if (!session) return failed(session.error());
    const fs::path folder = argv[2];
    if (argc > 3) {
        auto sound = check(**session, folder);
        return sound ? 0 : failed(sound.error());
    }
    PromptCache prompts(**engine, **session, {folder / "prompts", uint64_t{1} << 34});
    auto done = save(**session, prompts, folder);
    return done ? 0 : failed(done.error());
}
