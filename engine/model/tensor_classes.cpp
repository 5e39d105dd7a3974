#include "engine/model/tensor_classes.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "io/text.h"

namespace sluice {

namespace {

constexpr const char* routed_experts = "routed experts";

// Classes in the order in which they are first named.
class ClassList {
 public:
    size_t index_of(const std::string& name, Home home) {
        const auto found = std::find_if(classes_.begin(), classes_.end(), [&](const auto& c) {
            return c.home == home && c.name == name;
        });
        if (found != classes_.end()) return static_cast<size_t>(found - classes_.begin());
        classes_.push_back({.name = name, .home = home});
        return classes_.size() - 1;
    }
    void add(size_t index, uint64_t tensors, uint64_t bytes) {
        classes_[index].tensors += tensors;
        classes_[index].bytes += bytes;
    }
    std::vector<TensorClass> take() {
        std::erase_if(classes_, [](const TensorClass& c) { return c.tensors == 0; });
        std::stable_sort(
            classes_.begin(), classes_.end(),
            [](const TensorClass& a, const TensorClass& b) { return a.home < b.home; });
        return std::move(classes_);
    }

 private:
    std::vector<TensorClass> classes_;
};

}  // namespace

ClassifiedTensors classify_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                                   const ModelDescription& model,
                                   const std::vector<TensorSpec>& specs) {
    ClassList list;
    std::unordered_map<std::string, size_t> class_of;
    for (const TensorSpec& spec : specs) {
        class_of.emplace(spec.name, list.index_of(spec.what, spec.home));
    }
    const size_t experts = list.index_of(routed_experts, Home::table);
    for (int32_t layer = 0; layer < config.layers; ++layer) {
        for (int32_t expert = 0; expert < config.experts; ++expert) {
            for (int part = 0; part < expert_parts; ++part) {
                class_of.emplace(model.expert_name({layer, expert}, static_cast<ExpertPart>(part)),
                                 experts);
            }
        }
    }
    std::vector<const Tensor*> unknown;
    std::vector<std::string> unused_names;
    for (const UnusedClass& c : model.unused) {
        const std::string kind = c.kind ? c.kind(checkpoint) : "";
        unused_names.push_back(kind.empty() ? c.what : cat(c.what, ", ", kind));
    }
    for (const Tensor& tensor : checkpoint.tensors()) {
        const auto known = class_of.find(tensor.name);
        if (known != class_of.end()) {
            list.add(known->second, 1, tensor.bytes);
            continue;
        }
        const auto unused =
            std::find_if(model.unused.begin(), model.unused.end(),
                         [&](const UnusedClass& c) { return tensor.name.starts_with(c.prefix); });
        if (unused == model.unused.end()) {
            unknown.push_back(&tensor);
        } else {
            const auto which = static_cast<size_t>(unused - model.unused.begin());
            list.add(list.index_of(unused_names[which], Home::unused), 1, tensor.bytes);
        }
    }
    return {list.take(), std::move(unknown)};
}

std::vector<TensorClass> described_classes(const ModelConfig& config,
                                           const std::vector<TensorSpec>& specs) {
    ClassList list;
    for (const TensorSpec& spec : specs) {
        if (spec.home == Home::unused) continue;
        list.add(list.index_of(spec.what, spec.home), 1, spec_bytes(spec));
    }
    const auto experts =
        static_cast<uint64_t>(config.layers) * static_cast<uint64_t>(config.experts);
    const size_t index = list.index_of(routed_experts, Home::table);
    for (const ExpertShape& part : expert_shapes(config)) {
        list.add(index, experts, experts * part.shape[0] * part.shape[1]);
    }
    return list.take();
}

}  // namespace sluice
