// Experts on the CPU beside a device: the same bits whatever the split, one trip to the host per
// layer, and every RAM slot given back.
#include <cstring>

#include "cache/route_file.h"
#include "cache/simulator.h"
#include "tests/support/device_like.h"
#include "tests/support/models.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

using Logits = std::vector<std::vector<float>>;

EngineOptions beside(const std::string& model, std::optional<uint32_t> share) {
    EngineOptions options = model_options(model);
    options.device = "device-like";
    options.open_device = []() -> Result<std::unique_ptr<Backend>> {
        return std::make_unique<DeviceLike>(uint64_t{96} << 20);
    };
    options.threads = 2;
    options.chunk = 32;
    options.cpu_experts = share;
    return options;
}

struct Run {
    Logits logits;
    RunStats stats;
};

Trace some_trace(const std::string& model) {
    for (Trace& trace : golden_traces(model, IndexKeys::own)) {
        if (trace.prompt.size() > 8) return std::move(trace);
    }
    FAIL("no trace with a prompt of more than 8 tokens");
    return {};
}

// Feeds a prompt, a short one after it (a few rows at once), and single tokens.
Run run_trace(const EngineOptions& options, const Trace& trace) {
    auto engine = load_engine(options);
    auto session = open_session(*engine);
    Run run;
    const auto keep = [&](auto logits) {
        REQUIRE_MESSAGE(logits, (logits ? "" : logits.error().message));
        run.logits.emplace_back(logits->begin(), logits->end());
    };
    const std::span<const int32_t> prompt(trace.prompt);
    const size_t tail = 5;
    keep(session->feed(prompt.first(prompt.size() - tail)));
    keep(session->feed(prompt.last(tail)));
    for (const int32_t& token : trace.tokens) keep(session->feed({&token, 1}));
    run.stats = session->stats();
    return run;
}

bool same(const Logits& a, const Logits& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i].size() != b[i].size()) return false;
        if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
    }
    return true;
}

}  // namespace

TEST_CASE("experts on the CPU change no bit, whatever the share and the caches") {
    for (const std::string model : {"dsv41-tiny", "dsv41-rand-a"}) {
        const Trace trace = some_trace(model);
        EngineOptions plain = model_options(model);
        plain.chunk = 32;
        const Run want = run_trace(plain, trace);
        for (std::optional<uint32_t> share :
             {std::optional<uint32_t>(0), std::optional<uint32_t>(50), std::optional<uint32_t>(100),
              std::optional<uint32_t>()}) {
            for (auto [vram, ram] : {std::pair{0u, 0u}, {20u, 0u}, {60u, 120u}}) {
                CAPTURE(model);
                CAPTURE(share.value_or(999));
                CAPTURE(vram);
                EngineOptions options = beside(model, share);
                options.vram_slots = vram;
                options.cache_slots = ram;
                const Run got = run_trace(options, trace);
                CHECK(same(got.logits, want.logits));
                const CpuExpertStats& cpu = got.stats.cpu;
                if (share == 0u) CHECK(cpu.asked == 0);
                if (share == 50u) CHECK(cpu.computed * 2 >= cpu.asked);
                if (share == 100u) CHECK(cpu.computed == cpu.asked);
                if (share != 0u) CHECK(cpu.computed > 0);
                if (share == 100u && vram == 0) CHECK(cpu.seconds > 0);
            }
        }
    }
}

TEST_CASE("what the CPU takes does not change what stays in RAM: routes replay to the same hits") {
    Trace trace = some_trace("dsv41-tiny");
    for (int32_t token = 0; token < 60; ++token) trace.tokens.push_back(100 + token * 37 % 500);
    for (std::optional<uint32_t> share :
         {std::optional<uint32_t>(0), std::optional<uint32_t>(50), std::optional<uint32_t>()}) {
        CAPTURE(share.value_or(999));
        TempFolder folder;
        EngineOptions options = beside("dsv41-tiny", share);
        options.vram_slots = 0;
        options.cache_slots = 200;
        options.prefetch = 0;
        options.record_routes = (folder / "routes").string();
        const Run run = run_trace(options, trace);
        const CacheStats& live = run.stats.cache;
        if (share != 0u) CHECK(run.stats.cpu.computed > 0);
        const auto routes = read_route_file(folder / "routes");
        REQUIRE_MESSAGE(routes, (routes ? "" : routes.error().message));
        SimulateOptions simulation;
        simulation.slots = 200;
        const auto replayed = simulate(*routes, simulation);
        REQUIRE_MESSAGE(replayed, (replayed ? "" : replayed.error().message));
        CHECK(live.asked == replayed->asked);
        CHECK(live.hits == replayed->hits);
        CHECK(live.evictions == replayed->evictions);
        CHECK(live.prompt_hits == replayed->prompt_hits);
        CHECK(live.hits > 0);
        CHECK(live.misses > 0);
    }
}

TEST_CASE("the activations for the CPU come with the routes in one trip") {
    const Trace trace = some_trace("dsv41-tiny");
    std::vector<uint64_t> downloads;
    for (uint32_t share : {0u, 100u}) {
        downloads.push_back(run_trace(beside("dsv41-tiny", share), trace).stats.device.downloads);
    }
    CHECK(downloads[0] > 0);
    CHECK(downloads[0] == downloads[1]);
}

TEST_CASE("a session goes on after a stop while the CPU computes") {
    const Trace trace = some_trace("dsv41-tiny");
    EngineOptions options = beside("dsv41-tiny", 50);
    options.cache_slots = 0;
    auto engine = load_engine(options);
    auto session = open_session(*engine);
    const std::span<const int32_t> prompt(trace.prompt);
    REQUIRE(session->feed(prompt));
    const auto first = session->feed({&trace.tokens[0], 1});
    REQUIRE(first);
    const std::vector<float> want(first->begin(), first->end());
    session->reset();
    REQUIRE(session->feed(prompt));
    std::atomic<bool> stop = false;
    int32_t layers = 0;
    session->set_cancel(&stop);
    session->set_progress([&](double) { stop = ++layers == 3; });
    const auto stopped = session->feed({&trace.tokens[0], 1});
    REQUIRE(!stopped);
    CHECK(stopped.error().code == Code::interrupted);
    session->set_cancel(nullptr);
    session->set_progress({});
    const auto again = session->feed({&trace.tokens[0], 1});
    REQUIRE(again);
    CHECK(std::memcmp(want.data(), again->data(), again->size_bytes()) == 0);
}

TEST_CASE("a share of experts for the CPU needs a device") {
    EngineOptions options = model_options("dsv41-tiny");
    options.cpu_experts = 50;
    options.gpu_option = "--cpu-experts";
    auto engine = Engine::load(options);
    REQUIRE(!engine);
    CHECK(engine.error().code == Code::usage);
    CHECK(engine.error().message.find("--cpu-experts") != std::string::npos);
}

}  // namespace sluice::test
