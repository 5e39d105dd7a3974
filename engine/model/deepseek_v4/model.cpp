// Source of deepseek_v4.h: the model's description.
#include "engine/model/deepseek/tensor_parts.h"
#include "engine/model/deepseek_v4/chat.h"
#include "engine/model/deepseek_v4/deepseek_v4.h"

namespace sluice::deepseek_v4 {

extern const ModelDescription description;
const ModelDescription description = {
    .model_type = "deepseek_v4",
    .title = "DeepSeek-V4",
    .parse = parse,
    .describe = describe,
    .expert_name = deepseek::expert_name,
    .unused = {{"mtp.", "draft head (mtp.*)", draft_head_kind}},
    .check_checkpoint = check_checkpoint,
    .check_weights = check_weights,
    .run_layer = run_layer,
    .shapes = {{"deepseek-v4-flash", flash_shape}, {"deepseek-v4-pro", pro_shape}},
    .config_text = config_text,
    .vocabulary = {.size = 129280, .compressed = 0, .bos = 0, .eos = 1, .pad = -1},
    .chat = &deepseek_v4_chat,
    .late_index_keys = false,
};

}  // namespace sluice::deepseek_v4
