// `sluice plan`: its memory placement is the engine's, and its forecasts follow the formulas of
// plan_forecast.h.
#include "tools/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/forward/state.h"
#include "io/json.h"
#include "tests/support/models.h"

using namespace sluice;

namespace {

std::string line_text(const BudgetLine& line) {
    return line.device + " " + std::to_string(line.bytes) + " " + line.what;
}

std::vector<std::string> lines_of(const std::vector<BudgetLine>& placement) {
    std::vector<std::string> out;
    for (const BudgetLine& line : placement) out.push_back(line_text(line));
    return out;
}

// The released shape on an assumed GPU of this size, with an assumed scratch size.
struct Flash {
    std::unique_ptr<PlanModel> model;
    EngineOptions options;
    Plan plan;
    MachineRates rates;

    Flash(uint64_t vram, uint64_t ram, std::optional<uint32_t> slots = {}, int32_t context = 0) {
        auto read = model_to_plan({}, "deepseek-v4.1-flash");
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
        model = std::move(*read);
        options.ram = ram;
        options.cache_slots = slots;
        options.context = context;
        auto made = plan_memory({.config = model->config(),
                                 .options = options,
                                 .specs = model->specs,
                                 .tables = model->tables,
                                 .slot_bytes = model->slot_bytes,
                                 .device_slot_bytes = model->device_slot_bytes,
                                 .device = {.host = vram == 0,
                                            .limit = vram == 0 ? UINT64_MAX : vram,
                                            .scratch = [](const Shapes&) { return 64u << 20; }}});
        REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
        plan = std::move(*made);
        rates.drive = {8.8e9, 8.8e9, Origin::given};
        rates.cpu = assumed_gpu();
        rates.cpu.dense_bytes_s = rates.cpu.head_bytes_s = rates.cpu.expert_bytes_s = 40e9;
        if (vram == 0) return;
        rates.gpu = assumed_gpu();
        rates.link = {28.6e9, Origin::given};
    }
};

constexpr uint64_t gib = uint64_t{1} << 30;

}  // namespace

TEST_CASE("the plan's placement is the engine's, line by line") {
    std::vector<EngineOptions> cases(7, test::model_options("dsv41-tiny"));
    cases[1].cache_slots = 0;
    cases[2].context = 4096, cases[2].chunk = 64;
    cases[3].ram = 40u << 20;
    cases[4] = test::model_options("dsv41-rand-a");
    cases[4].tuning.in_flight_max = 3;
    cases[5].chunk = 64, cases[5].cache_slots = 100;  // chunk groups
    cases[6] = test::model_options("dsv4-rand-a");
    for (size_t i = 0; i < cases.size(); ++i) {
        CAPTURE(i);
        const auto engine = test::load_engine(cases[i]);
        Options options;
        options.command = Command::plan;
        options.engine = cases[i];
        auto plan = make_plan(options, PlanParts::placement);
        REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
        CHECK(lines_of(plan->plan.placement) == lines_of(engine->placement()));
        CHECK((plan->plan.chunk_group_tokens == 512) == (i == 5));
        CHECK(plan->plan.settings.chunk == engine->settings().chunk);
        CHECK(plan->plan.settings.context == engine->settings().context);
        CHECK(plan->device == engine->device_name());
    }
}

TEST_CASE("the plan refuses what the engine refuses, with the same message") {
    EngineOptions options = test::model_options("dsv41-tiny");
    options.ram = 1u << 20;
    Options plan;
    plan.engine = options;
    const auto refused = make_plan(plan);
    const auto engine = Engine::load(options);
    REQUIRE_FALSE(refused);
    REQUIRE_FALSE(engine);
    CHECK(refused.error().message == engine.error().message);
    CHECK(refused.error().code == engine.error().code);
}

TEST_CASE("bytes per class of the released model, from its shape alone") {
    auto read = model_to_plan({}, "deepseek-v4.1-flash");
    REQUIRE(read);
    const PlanModel& m = **read;
    uint64_t dense = 0, head = 0;
    for (const TensorClass& c : m.classes) {
        if (c.home == Home::dense) (c.name == "head" ? head : dense) += c.bytes;
    }
    // The published 7,199,094,208 without the routers' biases for images, which are not loaded.
    CHECK(dense == 7199094208 - 40 * 384 * 4);
    CHECK(head == 129280ull * 5120 * 2);
    CHECK(m.bytes(Home::host) == head);
    CHECK(m.expert_bytes == 17694720 + 1105920);
    CHECK(m.experts() == 15360);
    CHECK(m.token_experts() == 240);
    CHECK(m.slot_bytes >= m.expert_bytes);
    CHECK(m.slot_bytes <= m.expert_bytes + 2 * 4096);
    for (const TensorClass& c : m.classes) {
        if (c.name == "Engram tables") CHECK(c.bytes == (384006168ull + 384016682) * 264);
    }
}

TEST_CASE("bytes per class of a released model that routes by token id, from its shape alone") {
    auto read = model_to_plan({}, "deepseek-v4-flash");
    REQUIRE(read);
    const PlanModel& m = **read;
    uint64_t backbone = 0;
    for (const TensorClass& c : m.classes) {
        const bool end = c.name == "head" || c.name == "embedding";
        if (end) CHECK(c.bytes == 1059061760);
        if (!end && c.home != Home::table) backbone += c.bytes;
        if (c.name == "experts by token id") CHECK(c.bytes == 18616320);
    }
    CHECK(backbone == 6727835868);
    CHECK(m.bytes(Home::table) == 147169738752);
    CHECK(m.token_experts() == 258);
    CHECK(m.token_experts() * m.expert_bytes == 3449290752);
    const auto& notes = m.notes;
    CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
        return note.starts_with("the first 3 layers choose experts by the token alone");
    }));
    // Compressed rows of 1024 bytes and index keys of 256, of what a token adds to either.
    const ModelConfig& c = m.config();
    const uint64_t more = State::bytes(c, 1 << 20) - State::bytes(c, 1 << 19);
    CHECK(static_cast<double>(more) / (1 << 19) == doctest::Approx(6880));
}

TEST_CASE("the classes of a checkpoint add up to all its bytes") {
    auto read = model_to_plan(test::model_options("dsv41-tiny"), "");
    REQUIRE(read);
    uint64_t classes = 0, tensors = 0;
    for (const TensorClass& c : (*read)->classes) classes += c.bytes;
    for (const Tensor& tensor : (*read)->loaded.runtime.checkpoint.tensors())
        tensors += tensor.bytes;
    CHECK(classes == tensors);
    uint64_t shards = 0;
    for (const PlannedDrive& drive : (*read)->drives) shards += drive.shards;
    CHECK(shards == (*read)->loaded.runtime.checkpoint.shards().size());
}

TEST_CASE("an 8 GB GPU and a drive of 8.8 GB/s: the known limits") {
    const Flash f(7838315315, 32 * gib);
    uint64_t vram = 0, ram = 0;
    for (const BudgetLine& one : f.plan.placement) (one.device == "vram" ? vram : ram) += one.bytes;
    CHECK(vram <= 7838315315);
    CHECK(ram <= 32 * gib);
    CHECK(f.plan.head_on_host);
    // The largest prompt chunk that fits, since a prompt's experts are read once per chunk.
    CHECK(f.plan.shape.chunk >= 2048);
    const WorkspaceShape larger =
        WorkspaceShape::plan(f.model->config(), f.plan.shape.chunk + 64, f.plan.shape.context);
    CHECK(f.plan.dense + f.plan.state + f.plan.scratch +
              Workspace::bytes(f.model->config(), larger) +
              f.plan.vram_transit_slots * f.model->device_slot_bytes >
          7838315315);

    const Forecast cold = forecast_decode(*f.model, f.plan, f.rates, Warmth::cold);
    CHECK(std::string(cold.terms.bottleneck()) == "drive");
    CHECK(cold.terms.drive == doctest::Approx(240 * 18808832.0 / 8.8e9).epsilon(0.001));
    CHECK(cold.limit_tok_s() == doctest::Approx(1.95).epsilon(0.005));
    CHECK(cold.terms.link == doctest::Approx(240 * 18800640.0 / 28.6e9));
    CHECK(cold.terms.cpu == doctest::Approx(129280.0 * 5120 * 2 / 40e9));

    const Forecast even = forecast_decode(*f.model, f.plan, f.rates, Warmth::even);
    const Forecast skewed = forecast_decode(*f.model, f.plan, f.rates, Warmth::skewed);
    CHECK(even.ram_hits == doctest::Approx(f.plan.settings.cache_slots / 15360.0));
    CHECK(even.limit_tok_s() > cold.limit_tok_s());
    CHECK(skewed.limit_tok_s() > even.limit_tok_s());
}

TEST_CASE("a chunk group reads once what the cache keeps of a layer") {
    const auto reads = [](const Flash& f, int32_t tokens) {
        const Forecast prompt = forecast_prompt(*f.model, f.plan, f.rates, Warmth::cold, tokens);
        const double chunks = std::ceil(double(tokens) / f.plan.shape.chunk);
        CHECK(chunks >= 2);
        CHECK(prompt.terms.link ==
              doctest::Approx(chunks * 15360 * 18800640.0 / 28.6e9).epsilon(0.01));
        return prompt.terms.drive / (15360 * 18808832.0 / 8.8e9);
    };
    const Flash f(7838315315, 32 * gib);
    CHECK(f.plan.chunk_group_tokens == f.plan.shape.context);
    uint64_t store = 0;
    for (const BudgetLine& one : f.plan.placement) {
        if (one.what == "prompt chunks, 8192 tokens") store = one.bytes;
    }
    CHECK(store == f.plan.chunk_store);
    CHECK(store / 8192 > 43000);
    CHECK(store / 8192 < 45000);
    CHECK(reads(f, 4096) == doctest::Approx(1).epsilon(0.02));
    CHECK(reads(f, 8192) == doctest::Approx(1).epsilon(0.02));
    // A longer context than RAM can hold takes several groups.
    const Flash wide(7838315315, 16 * gib, {}, 65536);
    CHECK(wide.plan.chunk_group_tokens > 3 * wide.plan.shape.chunk);
    CHECK(wide.plan.chunk_group_tokens % wide.plan.shape.chunk == 0);
    CHECK(wide.plan.chunk_group_tokens < 60000);
    const double groups = std::ceil(60000.0 / wide.plan.chunk_group_tokens);
    CHECK(reads(wide, 60000) == doctest::Approx(groups).epsilon(0.05));
    // A cache smaller than a layer keeps less; without a cache nothing is kept.
    const Flash less(7838315315, 32 * gib, 250);
    CHECK(reads(less, 4096) == doctest::Approx(1 + 134 / 384.0).epsilon(0.02));
    const Flash off(7838315315, 32 * gib, 0);
    CHECK(off.plan.chunk_group_tokens == 0);
    CHECK(reads(off, 4096) == doctest::Approx(2).epsilon(0.02));
}

TEST_CASE("the bottleneck is the longest of the terms") {
    Flash f(7838315315, 32 * gib);
    f.rates.link = {2e9, Origin::given};
    CHECK(
        std::string(forecast_decode(*f.model, f.plan, f.rates, Warmth::cold).terms.bottleneck()) ==
        "link");
    f.rates.link = {28.6e9, Origin::given};
    f.rates.gpu->dense_bytes_s = 1e9;
    CHECK(
        std::string(forecast_decode(*f.model, f.plan, f.rates, Warmth::cold).terms.bottleneck()) ==
        "gpu");
    Flash cpu(0, 64 * gib);
    cpu.rates.cpu.dense_bytes_s = 1e9;
    const Forecast slow = forecast_decode(*cpu.model, cpu.plan, cpu.rates, Warmth::cold);
    CHECK(std::string(slow.terms.bottleneck()) == "cpu");
    CHECK(slow.terms.link == 0);
    CHECK(slow.terms.gpu == 0);
    CHECK(slow.serial_tok_s() < slow.limit_tok_s());
}

TEST_CASE("the report has every part in text and JSON") {
    Options options;
    options.engine = test::model_options("dsv41-tiny");
    options.engine.context = 8192;
    options.drive_rate = 1000000000;
    auto plan = make_plan(options);
    REQUIRE(plan);
    const std::string text = plan_text(*plan);
    for (const char* part : {"routed experts", "placement", "drives", "speed of each part", "given",
                             "decode", "warm, even", " 4096 tokens", "bottleneck"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
    auto json = Json::parse(plan_json(*plan));
    REQUIRE(json);
    CHECK((*json)["decode"].size() == 3);
    CHECK((*json)["prompt"].size() == 6);
    CHECK((*json)["rates"]["drive"]["layer_bytes_s"].number().value() == 1e9);
    CHECK((*json)["rates"]["drive"]["origin"].string().value() == "given");
    CHECK((*json)["placement"].size() == plan->plan.placement.size());
    CHECK((*json)["files"].boolean().value());
    for (const Forecast& f : plan->decode) CHECK(f.limit_tok_s() > f.serial_tok_s());
}
