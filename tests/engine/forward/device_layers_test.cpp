// A device beside the CPU, layer by layer: each layer of the device starts from the CPU's streams,
// so that what one rounds differently does not reach the next. Needs a GPU:
// SLUICE_TEST_DEVICE=cuda.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "engine/forward/probe.h"
#include "io/text.h"
#include "tests/support/models.h"

using namespace sluice;

namespace {

class Recorder : public Probe {
 public:
    // Null: the model's own streams.
    explicit Recorder(const Recorder* from) : from_(from) {}

    bool replace(int32_t layer, std::span<float> h, std::span<float> pre) override {
        if (from_) {
            std::ranges::copy(from_->streams_.at(layer), h.begin());
            std::ranges::copy(from_->mixes_.at(layer), pre.begin());
            return true;
        }
        streams_[layer].assign(h.begin(), h.end());
        mixes_[layer].assign(pre.begin(), pre.end());
        return false;
    }
    void floats(int32_t layer, std::string_view name, std::span<const float> values) override {
        got[{layer, std::string(name)}].assign(values.begin(), values.end());
    }
    void integers(int32_t layer, std::string_view name, std::span<const int64_t> values) override {
        got[{layer, std::string(name)}].assign(values.begin(), values.end());
    }

    std::map<std::pair<int32_t, std::string>, std::vector<double>> got;

 private:
    const Recorder* from_;
    std::map<int32_t, std::vector<float>> streams_, mixes_;
};

Recorder record(const std::string& model, const char* device, const std::vector<int32_t>& prompt,
                const Recorder* from) {
    EngineOptions options = test::model_options(model);
    options.device = device;
    options.chunk = options.context;
    options.vram_slots = 0;
    if (std::string(device) != "cpu") options.vram = uint64_t{2} << 30;
    auto engine = test::load_engine(options);
    auto session = test::open_session(*engine);
    Recorder recorder(from);
    session->set_probe(&recorder);
    REQUIRE(session->feed(prompt));
    return recorder;
}

// The median of the positions' relative errors, of values that lie position by position.
double median_error(const std::vector<double>& want, const std::vector<double>& got, size_t rows) {
    const size_t width = want.size() / rows;
    std::vector<double> errors;
    for (size_t row = 0; row < rows; ++row) {
        double error = 0, size = 0;
        for (size_t i = row * width; i < (row + 1) * width; ++i) {
            error += (got[i] - want[i]) * (got[i] - want[i]);
            size += want[i] * want[i];
        }
        errors.push_back(size > 0 ? std::sqrt(error / size) : std::sqrt(error));
    }
    std::nth_element(errors.begin(), errors.begin() + static_cast<int64_t>(rows / 2), errors.end());
    return errors[rows / 2];
}

void check_layers(const std::string& model) {
    const char* device = std::getenv("SLUICE_TEST_DEVICE");
    if (!device) return;
    for (const Trace& trace : test::golden_traces(model, IndexKeys::own)) {
        CAPTURE(trace.prompt.size());
        const Recorder cpu = record(model, "cpu", trace.prompt, nullptr);
        const Recorder other = record(model, device, trace.prompt, &cpu);
        for (const auto& [key, want] : cpu.got) {
            const auto& [layer, name] = key;
            const bool ids = name == "topk_rows" || name == "candidates" || name == "route_ids";
            if (name == "index_scores" || name.starts_with("state.") || ids) continue;
            const std::vector<double>& got = other.got.at(key);
            REQUIRE(got.size() == want.size());
            size_t rows = name == "logits" ? 1 : trace.prompt.size();
            if (want.size() % rows != 0) rows = 1;
            const double median = median_error(want, got, rows);
            CAPTURE(layer);
            CAPTURE(name);
            CHECK(median <= 2e-3);
        }
    }
}

}  // namespace

TEST_CASE("a device computes the layers of dsv41-tiny as the CPU does") {
    check_layers("dsv41-tiny");
}
TEST_CASE("a device computes the layers of dsv4-rand-a as the CPU does") {
    check_layers("dsv4-rand-a");
}
