// What a model is made of: the tensors it needs, in which form, and where each one is kept.
//
// A model's description is one function that walks a Weights and gives, for every tensor, its name,
// storage, shape, class and the pointer that will hold it; routed experts, which are all alike,
// have expert_name() and expert_shapes(). Names and shapes are written down nowhere else. A model
// of the same architecture is one file with a description and a line in models.cpp.
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

// How the bytes of a tensor are read (deepseek-v41.md section 2.2); several dtype tags can mean the
// same storage.
enum class Storage {
    bf16,  // BF16
    f32,   // F32
    fp8,   // F8_E4M3
    e8m0,  // F8_E8M0, U8
    fp4,   // I8, U8: two E2M1 values per byte
};
bool accepts(Storage storage, DType dtype);
const char* accepted_tags(Storage storage);  // "F8_E8M0 or U8"

enum class Home {
    dense,      // resident, in the backend's memory
    embedding,  // resident, in host memory
    table,      // on the drive, read when needed: Engram rows, routed experts
    unused,     // known, checked if present, not read
};

struct TensorSpec {
    std::string name;
    Storage storage;
    std::vector<uint64_t> shape;
    const char* what;  // class: "attention", "router"
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
    // Lists every tensor except the routed experts, and sets the matrix shapes in `weights`.
    std::vector<TensorSpec> (*describe)(const ModelConfig& config, Weights& weights);
    std::string (*expert_name)(ExpertKey key, ExpertPart part);
    std::vector<UnusedClass> unused;
};

// unsupported: the error lists the known types.
Result<const ModelDescription*> find_model(std::string_view model_type);

// Storage and shape of the six tensors of an expert, by ExpertPart.
struct ExpertShape {
    Storage storage;
    std::array<uint64_t, 2> shape;
};
std::array<ExpertShape, expert_parts> expert_shapes(const ModelConfig& config);

// A class of tensors and what there is of it.
struct TensorClass {
    std::string name;  // "attention", "routed experts"
    Home home = Home::dense;
    uint64_t tensors = 0, bytes = 0;
};

struct CheckedTensors {
    std::vector<TensorClass> classes;  // by home, then in the description's order
    std::vector<std::string> notes;    // one line per unused class
};

// Compares the checkpoint with the description: every tensor that the model needs is there, of an
// accepted dtype and the exact shape; every tensor that is there is needed or known to be unused.
// Errors name the tensor, what was found and what was expected. Adds every expert to `experts` and
// fills `weights.tables`.
Result<CheckedTensors> check_tensors(const Checkpoint& checkpoint, const ModelConfig& config,
                                     const ModelDescription& model,
                                     const std::vector<TensorSpec>& specs, Weights& weights,
                                     ExpertMap& experts);

}  // namespace sluice
