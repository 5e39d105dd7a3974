// Names of weight files: numbered shards, the index, and other files beside them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* lone_name =
    "model.safetensors";  // a model in one file, without an index

// "model-00003-of-00048.safetensors" -> {3, 48}
struct ShardNumber {
    uint32_t number, count;
};
std::optional<ShardNumber> shard_number(std::string_view name);

// Files of `folder` that are weights by their name, complete or left over, sorted. Not the index.
std::vector<std::string> weight_files(const std::filesystem::path& folder);

// "a, b, c and 4 more", printable.
std::string list_names(const std::vector<std::string>& names);

}  // namespace sluice
