// What a model is: everything that is true of one model and not of another, as one value.
//
// A model's tensors are described by one function that walks a Weights and gives, for every tensor,
// its name, storage, shape, class and the pointer that will hold it; routed experts, which are all
// alike, have expert_name() and expert_shapes(). A model lives in a folder of its own
// (engine/model/deepseek_v4, ...), which alone knows its names, and has a line in models.cpp. Its
// layers are composed of the parts in engine/forward.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/model_shape.h"
#include "engine/model/weights.h"
#include "engine/text/chat_format.h"
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
    i64,   // I64
};
bool accepts(Storage storage, DType dtype);
const char* accepted_tags(Storage storage);  // "F8_E8M0 or U8"

enum class Home {
    dense,   // resident, in the backend's memory
    host,    // resident, in host memory: what is looked up by token id
    table,   // on the drive, read when needed: Engram rows, routed experts
    unused,  // known, checked if present, not read
};

struct TensorSpec {
    std::string name;
    Storage storage;
    std::vector<uint64_t> shape;  // in the checkpoint
    const char* what;             // class: "attention", "router"
    Home home;
    std::variant<std::monostate, const uint8_t**, const bf16**, const float**, const int64_t**>
        address;
    // Scales of tiles wider than 32: each is stored `repeat` times in both directions, so that
    // memory holds one per tile of 32 x 32, in the shape `resident`.
    uint64_t repeat = 1;
    std::vector<uint64_t> resident = {};  // empty: as in the checkpoint
    bool head = false;                    // the output head, which a small device leaves to the CPU
};

struct UnusedClass {
    const char* prefix;  // of tensor names
    const char* what;    // "draft head (mtp)"
    // What a checkpoint has of it: "an MTP block". Null: there is only one kind.
    std::string (*kind)(const Checkpoint& checkpoint) = nullptr;
};

struct Pass;  // engine/forward/pass.h

struct ModelDescription {
    const char* model_type;
    const char* title;  // "DeepSeek-V4.1-Flash", as people call it
    Result<ModelConfig> (*parse)(const Json& root);
    // Lists every tensor except the routed experts, and sets the matrix shapes in `weights`.
    std::vector<TensorSpec> (*describe)(const ModelConfig& config, Weights& weights);
    std::string (*expert_name)(ExpertKey key, ExpertPart part);
    std::vector<UnusedClass> unused;
    // What a config cannot say, such as which draft head the files hold; null: nothing. Errors name
    // the fields or tensors that contradict each other.
    Result<void> (*check_checkpoint)(const Checkpoint& checkpoint, const ModelConfig& config);
    // Values of loaded tables of ids (Storage::i64), which are in host memory; null: none.
    // Errors name the shard, the tensor and how to fetch it.
    Result<void> (*check_weights)(const Checkpoint& checkpoint, const ModelConfig& config,
                                  const Weights& weights);
    // All sub-layers of a layer, from pass.streams to pass.streams. Errors as those of forward().
    Result<void> (*run_layer)(Pass& pass, int32_t layer);
    std::vector<NamedShape> shapes;
    // A config.json of this model.
    std::string (*config_text)(const ModelShape& shape, const Vocabulary& vocabulary);
    Vocabulary vocabulary;  // of the release
    const ChatFormat* chat;
    // The official program publishes index keys late on some decode steps, and can be followed in
    // that (IndexKeys::reference).
    bool late_index_keys;
};

const std::vector<const ModelDescription*>& known_models();
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
