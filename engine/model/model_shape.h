// Shapes of models without a checkpoint, and a config.json for each: for `sluice plan --shape` and
// for the checkpoints that make_checkpoint writes.
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
    int engram_vocab = 4000, engram_heads = 8, engram_dim = 256, engram_ngram = 3;
    // true: the layers have the roles of the release. false: all layers but the first are alike.
    bool release_layers = false;
    // For the values of a made checkpoint. An expert's popularity is its rank to the power of -skew
    // (0: all alike). Attention's output, which changes slowly, is doubled `locality` times, which
    // makes routing more local.
    double skew = 0;
    int locality = 0;
    uint64_t seed = 1;
};

// Sizes and special ids of a tokenizer.
struct Vocabulary {
    int64_t size, compressed, bos, eos, pad;
};

// The full-size DeepSeek-V4.1-Flash without draft head and image tower, and its vocabulary.
ModelShape flash_shape();
Vocabulary flash_vocabulary();

// Names for --shape.
std::vector<std::string> shape_names();
// The config.json of a named shape. usage, listing the names: an unknown name.
Result<std::string> shape_config(const std::string& name);

std::string config_text(const ModelShape& shape, const Vocabulary& vocabulary);

}  // namespace sluice
