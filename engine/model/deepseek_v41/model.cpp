// Source of deepseek_v41.h: the model's description.
#include "engine/model/deepseek/tensor_parts.h"
#include "engine/model/deepseek_v41/deepseek_v41.h"

namespace sluice::deepseek_v41 {

extern const ModelDescription description;
const ModelDescription description = {
    .model_type = "deepseek_v41",
    .title = "DeepSeek-V4.1",
    .parse = parse,
    .describe = describe,
    .expert_name = deepseek::expert_name,
    .unused = {{"mtp.", "draft head (mtp.*)"},
               {"vision.", "image tower (vision.*)"},
               {"aligner.", "image aligner (aligner.*)"},
               {"image_", "image vectors (image_*)"}},
    .check_checkpoint = nullptr,
    .check_weights = nullptr,
    .run_layer = run_layer,
    .shapes = {{"deepseek-v4.1-flash", flash_shape}},
    .config_text = config_text,
    .vocabulary = {.size = 129280, .compressed = 99092, .bos = 0, .eos = 1, .pad = 2},
    .late_index_keys = true,
};

}  // namespace sluice::deepseek_v41
