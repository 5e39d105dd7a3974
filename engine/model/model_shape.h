// Shapes of models without a checkpoint, from which a model's config_text() makes a config.json: for
// `sluice plan --shape` and for the checkpoints that make_checkpoint writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/error.h"

namespace sluice {

struct ModelShape {
    int layers = 2, experts = 64, top_k = 6, hidden = 5120, moe = 2304;
    int heads = 16, head_dim = 128, rope_dim = 64, q_rank = 512, o_rank = 256, o_groups = 4;
    int window = 128, index_heads = 8, index_dim = 128, index_topk = 512, context = 65536;
    // Of models that have such a thing, else without effect:
    int engram_vocab = 4000, engram_heads = 8, engram_dim = 256, engram_ngram = 3;
    int token_routed_layers = 0;
    double route_scale = 1.5;
    int first_ratio = 0;  // compression of the first two layers of the release
    // true: the layers have the roles of the release. false: all layers but the first are alike.
    bool release_layers = false;
    // For the values of a made checkpoint. An expert's popularity is its rank to the power of -skew
    // (0: all alike). Attention's output, which changes slowly, is doubled `locality` times, which
    // makes routing more local.
    double skew = 0;
    int locality = 0;
    uint64_t seed = 1;
};

// Sizes and special ids of a tokenizer. `compressed`: ids that Engram tells apart; 0: without.
struct Vocabulary {
    int64_t size, compressed, bos, eos, pad;
};

struct ModelDescription;

// A shape that --shape names.
struct NamedShape {
    const char* name;
    ModelShape (*shape)();
};

// Names for --shape, of all known models.
std::vector<std::string> shape_names();
struct FoundShape {
    const ModelDescription* model;
    ModelShape shape;
};
// usage, listing the names: an unknown name.
Result<FoundShape> find_shape(const std::string& name);
// The config.json of a named shape, with the vocabulary of the release.
Result<std::string> shape_config(const std::string& name);

// For the config_text() of models: a line of a JSON object, and a list of numbers.
std::string field_line(const char* name, const std::string& value);
std::string field_line(const char* name, int64_t value);
std::string list_text(const std::vector<int64_t>& items);

}  // namespace sluice
