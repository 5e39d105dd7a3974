#include <algorithm>
#include <array>

#include "cache/predictor.h"
#include "io/text.h"

namespace sluice {
namespace {

class None final : public Predictor {
 public:
    explicit None(int32_t) {}
    void predict(const RouteStep&, size_t, std::vector<int32_t>& out) override { out.clear(); }
};

class Router final : public Predictor {
 public:
    explicit Router(int32_t) {}
    void predict(const RouteStep& step, size_t limit, std::vector<int32_t>& out) override {
        const size_t count = std::min(limit, step.next_guesses.size());
        out.assign(step.next_guesses.begin(), step.next_guesses.begin() + count);
    }
};

class Repeat final : public Predictor {
 public:
    explicit Repeat(int32_t layers) : last_(static_cast<size_t>(layers)) {}
    void predict(const RouteStep& step, size_t limit, std::vector<int32_t>& out) override {
        out.clear();
        const auto layer = static_cast<size_t>(step.layer);
        if (layer >= last_.size()) return;
        last_[layer].assign(step.chosen.begin(), step.chosen.end());
        if (layer + 1 == last_.size()) return;
        const std::vector<int32_t>& before = last_[layer + 1];
        out.assign(before.begin(), before.begin() + std::min(limit, before.size()));
    }

 private:
    std::vector<std::vector<int32_t>> last_;  // [layers]: what each chose when last routed
};

template <class Kind>
std::unique_ptr<Predictor> make(int32_t layers) {
    return std::make_unique<Kind>(layers);
}

struct PredictorKind {
    const char* name;
    std::unique_ptr<Predictor> (*make)(int32_t layers);
};
constexpr std::array<PredictorKind, 3> kinds = {{
    {"router", make<Router>},
    {"repeat", make<Repeat>},
    {"none", make<None>},
}};

}  // namespace

Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name, int32_t layers) {
    std::string known;
    for (const PredictorKind& kind : kinds) {
        if (name == kind.name) return kind.make(layers);
        known += cat(known.empty() ? "" : ", ", kind.name);
    }
    return fail(Code::usage, cat("unknown predictor '", printable(name), "'; known: ", known));
}

std::vector<std::string> predictor_names() {
    std::vector<std::string> names;
    names.reserve(kinds.size());
    for (const PredictorKind& kind : kinds) names.emplace_back(kind.name);
    return names;
}

}  // namespace sluice
