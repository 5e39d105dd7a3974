#include "engine/warm_start.h"

#include <charconv>
#include <set>
#include <string>

#include "engine/load/cache_file.h"
#include "engine/snapshot/snapshot_identity.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr std::string_view kind = "experts";
constexpr uint64_t text_max = 1 << 20;

// The ids are those of this model, whatever its folder and however it is split over drives.
Result<std::string> identity_of(const Runtime& rt) {
    const auto model = model_identity(rt.checkpoint);
    if (!model) return tl::unexpected(model.error());
    return cat("experts kept, model ", *model, ", ", rt.config.layers, " layers of ",
               rt.config.experts);
}

void add_new(const std::vector<ExpertKey>& keys, std::set<ExpertKey>& known,
             std::vector<ExpertKey>& out) {
    for (const ExpertKey& key : keys) {
        if (known.insert(key).second) out.push_back(key);
    }
}

}  // namespace

std::vector<ExpertKey> recall_experts(const Runtime& rt) {
    const auto identity = identity_of(rt);
    if (!identity) return {};
    const auto text = recall(kind, *identity, text_max);
    if (!text) return {};
    std::vector<ExpertKey> keys;
    const char* at = text->data();
    const char* const end = at + text->size();
    while (at < end) {
        int32_t number = -1;
        const auto [after, error] = std::from_chars(at, end, number);
        const bool separated = after == end || *after == ' ';
        const int32_t all = rt.config.layers * rt.config.experts;
        if (error != std::errc() || !separated || number < 0 || number >= all) return {};
        keys.push_back({number / rt.config.experts, number % rt.config.experts});
        at = after + (after < end);
    }
    return keys;
}

bool remember_experts(const Runtime& rt) {
    const auto identity = identity_of(rt);
    if (!identity) return false;
    std::set<ExpertKey> known;
    std::vector<ExpertKey> keys;
    if (rt.tiers.device) add_new(rt.tiers.device->by_recency(), known, keys);
    add_new(rt.tiers.cache->by_recency(), known, keys);
    if (keys.empty()) return true;  // what an earlier run kept is worth more than nothing
    std::string text;
    for (const ExpertKey& key : keys) {
        text += cat(text.empty() ? "" : " ", key.layer * rt.config.experts + key.expert);
    }
    return remember(kind, *identity, text);
}

}  // namespace sluice
