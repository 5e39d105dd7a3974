#include "cache/predictor.h"

#include <algorithm>

#include "cache/named_kinds.h"

namespace sluice {
namespace {

// Trusts next_guesses.
class Router final : public Predictor {
 public:
    explicit Router(int32_t) {}
    void predict(const RouteStep& step, size_t limit, std::vector<int32_t>& out) override {
        const size_t count = std::min(limit, step.next_guesses.size());
        out.assign(step.next_guesses.begin(), step.next_guesses.begin() + count);
    }
};

// What the next layer chose for the last token.
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

class None final : public Predictor {
 public:
    explicit None(int32_t) {}
    void predict(const RouteStep&, size_t, std::vector<int32_t>& out) override { out.clear(); }
};

constexpr NamedKind<Predictor, int32_t> kinds[] = {
    {"router", make_kind<Router>},
    {"repeat", make_kind<Repeat>},
    {"none", make_kind<None>},
};

}  // namespace

Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name, int32_t layers) {
    return make_named(kinds, "predictor", name, layers);
}

std::vector<std::string> predictor_names() {
    return names_of(kinds);
}

}  // namespace sluice
