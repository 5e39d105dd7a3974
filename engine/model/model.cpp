#include "engine/model/model.h"

#include <algorithm>

#include "engine/model/tensor_classes.h"
#include "io/text.h"

namespace sluice {

bool accepts(Storage storage, DType dtype) {
    switch (storage) {
        case Storage::bf16:
            return dtype == DType::bf16;
        case Storage::f32:
            return dtype == DType::f32;
        case Storage::fp8:
            return dtype == DType::f8_e4m3;
        case Storage::e8m0:
            return dtype == DType::f8_e8m0 || dtype == DType::u8;
        case Storage::fp4:
            return dtype == DType::i8 || dtype == DType::u8;
        case Storage::i64:
            return dtype == DType::i64;
    }
    return false;
}

const char* accepted_tags(Storage storage) {
    switch (storage) {
        case Storage::bf16:
            return "BF16";
        case Storage::f32:
            return "F32";
        case Storage::fp8:
            return "F8_E4M3";
        case Storage::e8m0:
            return "F8_E8M0 or U8";
        case Storage::fp4:
            return "I8 or U8 (packed FP4)";
        case Storage::i64:
            return "I64";
    }
    return "";
}

std::array<ExpertShape, expert_parts> expert_shapes(const ModelConfig& c) {
    const uint64_t d = static_cast<uint64_t>(c.hidden), f = static_cast<uint64_t>(c.moe_hidden);
    return {{{Storage::fp4, {f, d / 2}},
             {Storage::fp4, {d, f / 2}},
             {Storage::fp4, {f, d / 2}},
             {Storage::e8m0, {f, d / 32}},
             {Storage::e8m0, {d, f / 32}},
             {Storage::e8m0, {f, d / 32}}}};
}

namespace {

template <class Shape>
std::string shape_text(const Shape& shape) {
    std::string text = "[";
    for (uint64_t size : shape) text += cat(text.size() > 1 ? ", " : "", size);
    return text + "]";
}

template <class Shape>
Result<void> check_form(const Checkpoint& checkpoint, const Tensor& tensor, Storage storage,
                        const Shape& shape) {
    const bool same =
        std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end());
    const bool accepted = accepts(storage, tensor.dtype);
    if (accepted && same) return {};
    const auto& path = checkpoint.shards()[tensor.shard].path();
    const std::string cure =
        accepted ? cat("they are of different models, or damaged; ",
                       checkpoint.cure({"config.json", path.filename().string()}))
                 : "converted checkpoints are not supported: fetch the model as it was released";
    return fail(accepted ? Code::corrupt : Code::unsupported,
                cat(printable(path.string()), ": tensor ", printable(tensor.name), ": expected ",
                    accepted_tags(storage), " ", shape_text(shape), " from config.json, found ",
                    dtype_name(tensor.dtype), " ", shape_text(tensor.shape), "; ", cure));
}

Result<const Tensor*> need(const Checkpoint& checkpoint, const std::string& name, Storage storage) {
    Result<const Tensor*> tensor = checkpoint.require(name);
    if (tensor || storage != Storage::e8m0) return tensor;
    return within("a quantised weight cannot be used without its scale", tensor.error());
}

Result<void> check_specs(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs) {
    for (const TensorSpec& spec : specs) {
        if (spec.home == Home::unused && !checkpoint.find(spec.name)) continue;
        Result<const Tensor*> tensor = need(checkpoint, spec.name, spec.storage);
        if (!tensor) return tl::unexpected(tensor.error());
        if (auto form = check_form(checkpoint, **tensor, spec.storage, spec.shape); !form)
            return form;
    }
    return {};
}

Result<void> check_experts(const Checkpoint& checkpoint, const ModelConfig& config,
                           const ModelDescription& model, ExpertMap& experts) {
    const auto shapes = expert_shapes(config);
    for (int32_t layer = 0; layer < config.layers; ++layer) {
        for (int32_t expert = 0; expert < config.experts; ++expert) {
            const ExpertKey key{layer, expert};
            std::array<const Tensor*, expert_parts> parts{};
            for (int part = 0; part < expert_parts; ++part) {
                const std::string name = model.expert_name(key, static_cast<ExpertPart>(part));
                auto tensor = need(checkpoint, name, shapes[part].storage);
                if (!tensor) return tl::unexpected(tensor.error());
                auto form =
                    check_form(checkpoint, **tensor, shapes[part].storage, shapes[part].shape);
                if (!form) return form;
                parts[part] = *tensor;
            }
            if (auto added = experts.add(key, parts); !added) return added;
        }
    }
    return {};
}

// Tensors that the model does not know might matter: a reason to stop.
Result<void> refuse_unknown(const Checkpoint& checkpoint,
                            const std::vector<const Tensor*>& unknown) {
    if (unknown.empty()) return {};
    constexpr size_t shown = 5;
    std::string names;
    for (size_t i = 0; i < std::min(shown, unknown.size()); ++i) {
        names += cat(i == 0 ? "" : ", ", printable(unknown[i]->name));
    }
    return fail(Code::unsupported,
                cat(printable(checkpoint.folder().string()), ": the checkpoint has ",
                    unknown.size(), unknown.size() == 1 ? " tensor" : " tensors",
                    " unknown to this model, so results could be wrong: ", names,
                    unknown.size() > shown ? ", ..." : ""));
}

// The two tensors of a table follow each other in the specs: codes, then scales.
Result<void> fill_tables(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs,
                         Weights& weights) {
    weights.tables.clear();
    const Tensor* codes = nullptr;
    for (const TensorSpec& spec : specs) {
        if (spec.home != Home::table) continue;
        const Tensor* tensor = checkpoint.find(spec.name);
        if (spec.storage == Storage::fp8) {
            codes = tensor;
            continue;
        }
        if (codes->shard != tensor->shard) {
            return fail(Code::unsupported,
                        cat(printable(checkpoint.folder().string()), ": tensors ",
                            printable(codes->name), " and ", printable(tensor->name),
                            " are in different shards; a table's codes and scales must be in "
                            "one"));
        }
        weights.tables.push_back({.file = &checkpoint.shards()[codes->shard],
                                  .codes_offset = codes->offset,
                                  .codes_bytes = static_cast<uint32_t>(codes->shape[1]),
                                  .scales_offset = tensor->offset,
                                  .scales_bytes = static_cast<uint32_t>(tensor->shape[1]),
                                  .rows = codes->shape[0]});
    }
    return {};
}

}  // namespace

Result<CheckedTensors> check_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                                     const ModelDescription& model,
                                     const std::vector<TensorSpec>& specs, Weights& weights,
                                     ExpertMap& experts) {
    if (auto r = check_specs(checkpoint, specs); !r) return tl::unexpected(r.error());
    if (auto r = check_experts(checkpoint, config, model, experts); !r) {
        return tl::unexpected(r.error());
    }
    if (model.check_checkpoint) {
        auto r = model.check_checkpoint(checkpoint, config);
        if (!r) return tl::unexpected(r.error());
    }
    ClassifiedTensors found = classify_tensors(checkpoint, config, model, specs);
    if (auto r = refuse_unknown(checkpoint, found.unknown); !r) return tl::unexpected(r.error());
    if (auto r = fill_tables(checkpoint, specs, weights); !r) return tl::unexpected(r.error());
    CheckedTensors checked{std::move(found.classes), {}};
    for (const TensorClass& c : checked.classes) {
        if (c.home != Home::unused) continue;
        checked.notes.push_back(
            cat("not used: ", c.name, ", ", c.tensors, " tensors, ", size_text(c.bytes)));
    }
    return checked;
}

}  // namespace sluice
