#include "io/checkpoint/shard_names.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {
namespace fs = std::filesystem;

namespace {

constexpr size_t names_shown_max = 8;

bool looks_like_weights(std::string_view name) {
    return name != index_name &&
           (name.find(".safetensors") != name.npos || name.ends_with(".gguf") ||
            name.ends_with(".bin") || name.ends_with(".pth"));
}

}  // namespace

std::optional<ShardNumber> shard_number(std::string_view name) {
    const auto digits = [](std::string_view text) -> std::optional<uint32_t> {
        if (text.empty() || text.size() > 6) return {};
        uint32_t value = 0;
        for (const char c : text) {
            if (c < '0' || c > '9') return {};
            value = value * 10 + static_cast<uint32_t>(c - '0');
        }
        return value;
    };
    if (!name.ends_with(".safetensors")) return {};
    name.remove_suffix(12);
    const size_t of = name.rfind("-of-");
    if (of == name.npos) return {};
    const size_t dash = name.rfind('-', of - 1);
    if (of == 0 || dash == name.npos) return {};
    const auto number = digits(name.substr(dash + 1, of - dash - 1));
    const auto count = digits(name.substr(of + 4));
    if (!number || !count) return {};
    return ShardNumber{*number, *count};
}

std::vector<std::string> weight_files(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code problem;
    for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
         entry.increment(problem)) {
        std::string name = entry->path().filename().string();
        if (looks_like_weights(name)) names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string list_names(const std::vector<std::string>& names) {
    std::string out;
    for (size_t i = 0; i < names.size() && i < names_shown_max; ++i) {
        out += cat(i ? ", " : "", printable(names[i]));
    }
    if (names.size() > names_shown_max)
        out += cat(" and ", names.size() - names_shown_max, " more");
    return out;
}

}  // namespace sluice
