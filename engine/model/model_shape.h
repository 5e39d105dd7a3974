// Shapes that are known without a checkpoint, and the config.json of each: for `sluice plan
// --shape` and for checkpoints made to measure with.
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
    // Which layer does what: as released, or all after the first alike.
    bool release_layers = false;
    // Of a made checkpoint's values. Routing: an expert's popularity falls with its rank to the
    // power of -skew (0: all alike), and attention's output, which changes slowly, is doubled
    // `locality` times.
    double skew = 0;
    int locality = 0;
    uint64_t seed = 1;
};

// What a tokenizer says about itself.
struct Vocabulary {
    int64_t size, compressed, bos, eos, pad;
};

// DeepSeek-V4.1-Flash, whole, and its tokenizer; without draft head and image tower.
ModelShape flash_shape();
Vocabulary flash_vocabulary();

// Names for --shape; usage lists them.
std::vector<std::string> shape_names();
// config.json of the shape with this name.
Result<std::string> shape_config(const std::string& name);

std::string config_text(const ModelShape& shape, const Vocabulary& vocabulary);

}  // namespace sluice
