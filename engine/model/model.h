// What a model is made of: which tensors it needs, in which form, and where each one lives.
//
// A model description is one function that walks a Weights and says, for every tensor, its name,
// storage, shape and the pointer that will hold it: names and shapes are written down once.
// A new model is one file with such a description and a line in models.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/weights.h"
#include "io/checkpoint/checkpoint.h"
#include "io/checkpoint/expert_map.h"
#include "io/error.h"
#include "io/json.h"

namespace sluice {

// How a tensor's bytes are read; several dtype tags can mean the same one.
enum class Storage {
    bf16,  // BF16
    f32,   // F32
    fp8,   // F8_E4M3
    e8m0,  // F8_E8M0, U8
    fp4,   // I8, U8: two E2M1 values a byte
};
bool accepts(Storage storage, DType dtype);
const char* accepted_tags(Storage storage);  // "F8_E8M0 or U8"

enum class Home {
    dense,      // resident, in the backend's memory
    embedding,  // resident, in host memory
    table,      // rows read as they are needed
    unused,     // known, checked if present, never read
};

struct TensorSpec {
    std::string name;
    Storage storage;
    std::vector<uint64_t> shape;
    const char* what;  // class, for reports: "attention", "router"
    Home home;
    std::variant<std::monostate, const uint8_t**, const bf16**, const float**> address;
};

struct UnusedClass {
    const char* prefix;  // of tensor names
    const char* what;    // "draft head (mtp)"
};

struct ModelDescription {
    const char* model_type;
    Result<ModelConfig> (*parse)(const Json& root);
    // Shapes the matrices of `weights` and lists every tensor but the routed experts.
    std::vector<TensorSpec> (*describe)(const ModelConfig& config, Weights& weights);
    std::string (*expert_name)(ExpertKey key, ExpertPart part);
    std::vector<UnusedClass> unused;
};

// unsupported: lists the types that are known.
Result<const ModelDescription*> find_model(std::string_view model_type);

// The six tensors of any expert: storage and shape by ExpertPart.
struct ExpertShape {
    Storage storage;
    std::array<uint64_t, 2> shape;
};
std::array<ExpertShape, expert_parts> expert_shapes(const ModelConfig& config);

struct AccountClass {
    std::string what;
    uint64_t tensors = 0;
    uint64_t bytes = 0;
    enum class Use { resident, streamed, unused } use = Use::resident;
};

struct Account {
    std::vector<AccountClass> classes;  // in the description's order, unused ones last
    std::vector<std::string> notes;     // one line an unused class
};

// Holds the checkpoint against the description: every tensor needed is there, of an accepted dtype
// and the exact shape; every tensor there is needed or known to be unused. Errors name tensor,
// found and expected. Adds every expert to `experts` and fills `weights.tables`.
Result<Account> check_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                              const ModelDescription& model, const std::vector<TensorSpec>& specs,
                              Weights& weights, ExpertMap& experts);

}  // namespace sluice
