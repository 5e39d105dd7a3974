#include "engine/model/config.h"

#include <algorithm>

#include "engine/model/model.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

int32_t ModelConfig::open_slots(int32_t layer) const {
    const LayerRows& own = rows[layer];
    return own.ratio == 1 ? 0 : own.ratio * pool_width(layer);
}

int32_t ModelConfig::widest_pool() const {
    int32_t widest = 0;
    for (int32_t layer = 0; layer < layers; ++layer) {
        if (owns_rows(layer)) widest = std::max(widest, pool_width(layer));
    }
    return widest;
}

int32_t ModelConfig::largest_ratio() const {
    int32_t largest = 1;
    for (const LayerRows& one : rows) largest = std::max(largest, one.ratio);
    return largest;
}

int32_t ModelConfig::compressed_rows(int32_t context) const {
    int32_t most = 0;
    for (const LayerRows& one : rows) {
        if (one.ratio > 0) most = std::max(most, context / one.ratio);
    }
    return most;
}

int32_t ModelConfig::attended_rows(int32_t context) const {
    int32_t most = 0;
    for (const LayerRows& one : rows) {
        if (one.ratio == 0) continue;
        most = std::max(most, one.chooser < 0 ? context / one.ratio : index_topk);
    }
    return most;
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
