#include "engine/model/config.h"

#include <algorithm>

#include "engine/model/model.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

static int32_t nearest(const std::vector<int32_t>& sources, int32_t layer) {
    int32_t best = -1;
    for (int32_t source : sources) {
        if (source <= layer) best = std::max(best, source);
    }
    return best;
}

int32_t ModelConfig::kv_source_of(int32_t layer) const {
    return ratios[layer] == 0 ? -1 : nearest(kv_sources, layer);
}
int32_t ModelConfig::index_source_of(int32_t layer) const {
    return ratios[layer] == 0 ? -1 : nearest(index_sources, layer);
}

Result<void> join_generation_config(std::string_view text, ModelConfig& config) {
    Result<Json> root = Json::parse(text);
    if (!root) return tl::unexpected(root.error());
    if (!root->is_object()) return fail(Code::corrupt, "expected an object");
    const Json value = (*root)["eos_token_id"];
    if (value.is_null()) return {};
    std::vector<int64_t> ids;
    if (value.is_array()) {
        auto list = value.integers();
        if (!list) return tl::unexpected(list.error());
        ids = *list;
    } else {
        auto id = value.integer();
        if (!id) return tl::unexpected(id.error());
        ids = {*id};
    }
    for (int64_t id : ids) {
        if (id < 0 || id >= config.vocab) {
            return fail(Code::corrupt,
                        cat("eos_token_id ", id, " is outside the vocabulary of ", config.vocab));
        }
        const int32_t token = static_cast<int32_t>(id);
        auto& all = config.end_tokens;
        if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
    }
    return {};
}

Result<ModelConfig> parse_config(std::string_view config_json) {
    Result<Json> root = Json::parse(config_json);
    if (!root) return tl::unexpected(root.error());
    if (!root->is_object()) {
        return fail(Code::corrupt, "expected an object with the model's fields");
    }
    Result<std::string> type = (*root)["model_type"].string();
    if (!type) return tl::unexpected(type.error());
    Result<const ModelDescription*> model = find_model(*type);
    if (!model) return tl::unexpected(model.error());
    return (*model)->parse(*root);
}

}  // namespace sluice
