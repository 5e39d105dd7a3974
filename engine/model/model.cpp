#include "engine/model/model.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

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
        accepted ? cat("they are not of one model, or damaged; ",
                       checkpoint.cure({"config.json", path.filename().string()}))
                 : "a converted checkpoint is not read: fetch the model as it was released";
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

class Accountant {
 public:
    Accountant(const Checkpoint& checkpoint, Account& account)
        : checkpoint_(checkpoint), account_(account) {
        seen_.reserve(checkpoint.tensors().size());
    }

    void count(const Tensor& tensor, std::string_view what, AccountClass::Use use) {
        seen_.insert(&tensor);
        auto& classes = account_.classes;
        auto found = std::find_if(classes.begin(), classes.end(), [&](const AccountClass& c) {
            return c.what == what && c.use == use;
        });
        if (found == classes.end()) {
            classes.push_back({std::string(what), 0, 0, use});
            found = classes.end() - 1;
        }
        found->tensors++;
        found->bytes += tensor.bytes;
    }

    // What is left over: known to be unused, or a reason to stop.
    Result<void> rest(const std::vector<UnusedClass>& unused) {
        std::string names;
        uint64_t unknown = 0;
        for (const Tensor& tensor : checkpoint_.tensors()) {
            if (seen_.contains(&tensor)) continue;
            auto known = std::find_if(unused.begin(), unused.end(), [&](const UnusedClass& c) {
                return tensor.name.starts_with(c.prefix);
            });
            if (known != unused.end()) {
                count(tensor, known->what, AccountClass::Use::unused);
            } else if (unknown++ < 5) {
                names += cat(names.empty() ? "" : ", ", printable(tensor.name));
            }
        }
        if (unknown == 0) return {};
        return fail(Code::unsupported,
                    cat(printable(checkpoint_.folder().string()), ": the checkpoint has ", unknown,
                        unknown == 1 ? " tensor" : " tensors",
                        " this model does not know, so results could be wrong: ", names,
                        unknown > 5 ? ", ..." : ""));
    }

 private:
    const Checkpoint& checkpoint_;
    Account& account_;
    std::unordered_set<const Tensor*> seen_;
};

Result<void> check_specs(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs,
                         Accountant& accountant) {
    for (const TensorSpec& spec : specs) {
        if (spec.home == Home::unused && !checkpoint.find(spec.name)) continue;
        Result<const Tensor*> tensor = need(checkpoint, spec.name, spec.storage);
        if (!tensor) return tl::unexpected(tensor.error());
        if (auto form = check_form(checkpoint, **tensor, spec.storage, spec.shape); !form)
            return form;
        const auto use = spec.home == Home::table    ? AccountClass::Use::streamed
                         : spec.home == Home::unused ? AccountClass::Use::unused
                                                     : AccountClass::Use::resident;
        accountant.count(**tensor, spec.what, use);
    }
    return {};
}

Result<void> check_experts(const Checkpoint& checkpoint, const ModelConfig& config,
                           const ModelDescription& model, ExpertMap& experts,
                           Accountant& accountant) {
    const auto shapes = expert_shapes(config);
    for (int32_t layer = 0; layer < config.layers; layer++) {
        for (int32_t expert = 0; expert < config.experts; expert++) {
            const ExpertKey key{layer, expert};
            std::array<const Tensor*, expert_parts> parts{};
            for (int part = 0; part < expert_parts; part++) {
                const std::string name = model.expert_name(key, static_cast<ExpertPart>(part));
                auto tensor = need(checkpoint, name, shapes[part].storage);
                if (!tensor) return tl::unexpected(tensor.error());
                auto form =
                    check_form(checkpoint, **tensor, shapes[part].storage, shapes[part].shape);
                if (!form) return form;
                accountant.count(**tensor, "routed experts", AccountClass::Use::streamed);
                parts[part] = *tensor;
            }
            if (auto added = experts.add(key, parts); !added) return added;
        }
    }
    return {};
}

// A table's two tensors follow each other in the specs: codes, then scales.
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
                            " are in different shards; they are read together and have to share "
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

Result<Account> check_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                              const ModelDescription& model, const std::vector<TensorSpec>& specs,
                              Weights& weights, ExpertMap& experts) {
    Account account;
    Accountant accountant(checkpoint, account);
    if (auto r = check_specs(checkpoint, specs, accountant); !r) return tl::unexpected(r.error());
    if (auto r = check_experts(checkpoint, config, model, experts, accountant); !r) {
        return tl::unexpected(r.error());
    }
    if (auto r = accountant.rest(model.unused); !r) return tl::unexpected(r.error());
    if (auto r = fill_tables(checkpoint, specs, weights); !r) return tl::unexpected(r.error());
    std::stable_sort(account.classes.begin(), account.classes.end(),
                     [](const AccountClass& a, const AccountClass& b) { return a.use < b.use; });
    for (const AccountClass& c : account.classes) {
        if (c.use != AccountClass::Use::unused) continue;
        account.notes.push_back(
            cat("not used: ", c.what, ", ", c.tensors, " tensors, ", size_text(c.bytes)));
    }
    return account;
}

}  // namespace sluice
