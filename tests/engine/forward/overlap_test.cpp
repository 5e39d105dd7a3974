// Overlap on a device whose lanes have simulated time: uploads go on while experts are computed,
// and less overlap gives the same logits.
#include <cstring>

#include "tests/support/device_like.h"
#include "tests/support/models.h"
#include "tests/support/paths.h"

namespace sluice::test {
namespace {

// An expert's upload and its compute take one unit of time each, on lanes of their own. The host
// issues work in no time and waits only when it asks for results.
struct Lanes {
    double host = 0, compute = 0, uploads = 0;
    double upload_work = 0, compute_work = 0;
    std::vector<double> marks{0};
};

class TimedDevice final : public ForwardingBackend {
 public:
    TimedDevice(Lanes& lanes, double expert_bytes, double expert_compute)
        : ForwardingBackend(std::make_unique<DeviceLike>(uint64_t{96} << 20)),
          lanes_(lanes),
          expert_bytes_(expert_bytes),
          expert_compute_(expert_compute) {}

    void upload_beside(void* device, const void* host, size_t bytes) override {
        const double time = static_cast<double>(bytes) / expert_bytes_;
        lanes_.uploads = std::max(lanes_.uploads, lanes_.host) + time;
        lanes_.upload_work += time;
        ForwardingBackend::upload_beside(device, host, bytes);
    }
    using ForwardingBackend::run;
    void run(const RoutedExpert& op) override {
        compute(1);
        ForwardingBackend::run(op);
    }
    void run(const RoutedExpertBatch& op) override {
        compute(op.count);
        ForwardingBackend::run(op);
    }
    Result<void> download(void* host, const void* device, size_t bytes) override {
        lanes_.host = std::max(lanes_.host, lanes_.compute);
        return ForwardingBackend::download(host, device, bytes);
    }
    uint64_t mark_uploads() override { return mark(lanes_.uploads); }
    uint64_t mark_compute() override { return mark(lanes_.compute); }
    void compute_after_uploads(uint64_t mark) override {
        lanes_.compute = std::max(lanes_.compute, lanes_.marks[mark]);
    }
    void uploads_after_compute(uint64_t mark) override {
        lanes_.uploads = std::max(lanes_.uploads, lanes_.marks[mark]);
    }
    bool uploads_done(uint64_t mark) override { return lanes_.marks[mark] <= lanes_.host; }
    bool compute_done(uint64_t mark) override {
        lanes_.host += 0.1;
        return lanes_.marks[mark] <= lanes_.host;
    }
    Result<void> wait_uploads(uint64_t mark) override {
        lanes_.host = std::max(lanes_.host, lanes_.marks[mark]);
        return {};
    }

 private:
    void compute(int32_t experts) {
        const double time = experts * expert_compute_;
        lanes_.compute = std::max(lanes_.compute, lanes_.host) + time;
        lanes_.compute_work += time;
    }
    uint64_t mark(double time) {
        lanes_.marks.push_back(time);
        return lanes_.marks.size() - 1;
    }

    Lanes& lanes_;
    double expert_bytes_, expert_compute_;
};

EngineOptions timed(Lanes& lanes, double expert_compute) {
    EngineOptions options = model_options("dsv41-tiny");
    options.device = "timed";
    const double bytes =
        static_cast<double>(load_engine(model_options("dsv41-tiny"))->expert_bytes());
    options.open_device = [&lanes, bytes, expert_compute]() -> Result<std::unique_ptr<Backend>> {
        return std::make_unique<TimedDevice>(lanes, bytes, expert_compute);
    };
    options.vram_slots = 0;
    options.cpu_experts = 0;
    options.chunk = 128;
    return options;
}

}  // namespace

TEST_CASE("in a prompt the next expert is uploaded while one is computed") {
    const auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-10.json");
    REQUIRE(trace);
    const std::span<const int32_t> prompt(trace->prompt);
    for (double expert_compute : {0.3, 1.0, 3.0}) {
        CAPTURE(expert_compute);
        Lanes lanes;
        auto engine = load_engine(timed(lanes, expert_compute));
        lanes = {};  // without what loading took
        auto session = open_session(*engine);
        REQUIRE(session->feed(prompt.first(128)));
        const double most = std::max(lanes.upload_work, lanes.compute_work);
        const double taken = std::max(lanes.compute, lanes.uploads);
        CHECK(lanes.upload_work > 300);
        CHECK(taken >= most);
        CHECK(taken < 1.1 * most);
        CHECK(taken < 0.85 * (lanes.upload_work + lanes.compute_work));
    }
}

TEST_CASE("overlap changes no bit") {
    const auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-10.json");
    REQUIRE(trace);
    const std::span<const int32_t> ids(trace->prompt);
    std::vector<std::vector<float>> first;
    for (Overlap overlap : {Overlap::full, Overlap::prompt_path, Overlap::none}) {
        for (uint32_t slots : {0u, 100u}) {
            EngineOptions options = model_options("dsv41-tiny");
            options.overlap = overlap;
            options.cache_slots = slots;
            options.chunk = 40;
            auto engine = load_engine(options);
            auto session = open_session(*engine);
            std::vector<std::vector<float>> all;
            const auto keep = [&](auto logits) {
                REQUIRE(logits);
                all.emplace_back(logits->begin(), logits->end());
            };
            keep(session->feed(ids.first(100)));
            for (size_t i = 100; i < 110; ++i) keep(session->feed(ids.subspan(i, 1)));
            if (first.empty()) first = all;
            for (size_t i = 0; i < all.size(); ++i) {
                CHECK(std::memcmp(all[i].data(), first[i].data(), all[i].size() * 4) == 0);
            }
            const bool ahead = session->stats().cache.ahead_started > 0;
            CHECK(ahead == (overlap != Overlap::none));
        }
    }
}

}  // namespace sluice::test
