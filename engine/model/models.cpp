// Source of model.h: find_model(), over the table of known models.
#include "engine/model/model.h"
#include "engine/model/model_deepseek_v41.h"
#include "io/text.h"

namespace sluice {

static const std::vector<ModelDescription>& models() {
    static const std::vector<ModelDescription> table = {
        {.model_type = "deepseek_v41",
         .parse = deepseek_v41::parse,
         .describe = deepseek_v41::describe,
         .expert_name = deepseek_v41::expert_name,
         .unused = {{"mtp.", "draft head (mtp.*)"},
                    {"vision.", "image tower (vision.*)"},
                    {"aligner.", "image aligner (aligner.*)"},
                    {"image_", "image vectors (image_*)"}}},
    };
    return table;
}

Result<const ModelDescription*> find_model(std::string_view model_type) {
    std::string known;
    for (const ModelDescription& model : models()) {
        if (model.model_type == model_type) return &model;
        known += cat(known.empty() ? "" : ", ", model.model_type);
    }
    return fail(Code::unsupported,
                cat("model_type \"", printable(model_type), "\" is unknown; known: ", known));
}

}  // namespace sluice
