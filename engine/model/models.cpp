// Source of model.h: the table of known models. The line of a model here is all that names it
// outside its folder.
#include "engine/model/model.h"
#include "io/text.h"

namespace sluice {

namespace deepseek_v41 {
extern const ModelDescription description;
}
namespace deepseek_v4 {
extern const ModelDescription description;
}

const std::vector<const ModelDescription*>& known_models() {
    static const std::vector<const ModelDescription*> table = {
        &deepseek_v41::description,
        &deepseek_v4::description,
    };
    return table;
}

Result<const ModelDescription*> find_model(std::string_view model_type) {
    std::string known;
    for (const ModelDescription* model : known_models()) {
        if (model->model_type == model_type) return model;
        known += cat(known.empty() ? "" : ", ", model->model_type);
    }
    return fail(Code::unsupported,
                cat("model_type \"", printable(model_type), "\" is unknown; known: ", known));
}

}  // namespace sluice
