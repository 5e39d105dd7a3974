// A checkpoint with nothing but experts, large enough to measure the speed of drives.
#pragma once

#include <array>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "io/checkpoint/expert_map.h"
#include "io/format.h"
#include "io/text.h"
#include "tests/support/temp_folder.h"

namespace sluice {

inline constexpr std::array<const char*, expert_parts> part_names{
    "w1.weight", "w2.weight", "w3.weight", "w1.scale", "w2.scale", "w3.scale"};

inline std::string expert_name(ExpertKey key, int part) {
    return "layers." + std::to_string(key.layer) + ".ffn.experts." + std::to_string(key.expert) +
           "." + part_names[static_cast<size_t>(part)];
}

struct ExpertShards {
    int32_t layers = 2, experts = 12;
    uint64_t codes = 448u << 10, scales = 28u << 10;  // bytes of one tensor
    bool sparse = false;                              // zeros that take no space

    static std::string name(int32_t layer, int32_t layers) {
        return formatted("model-{:05}-of-{:05}.safetensors", layer + 1, layers);
    }
    // The content of the shard of `layer`.
    std::string shard(int32_t layer) const {
        std::string header = "{";
        uint64_t at = 0;
        for (int32_t expert = 0; expert < experts; ++expert) {
            for (int part = 0; part < expert_parts; ++part) {
                const uint64_t bytes = part <= w3_codes ? codes : scales;
                header += cat(at == 0 ? "" : ",", "\"", expert_name({layer, expert}, part),
                              "\":{\"dtype\":\"U8\",\"shape\":[", bytes, "],\"data_offsets\":[", at,
                              ",", at + bytes, "]}");
                at += bytes;
            }
        }
        header += "}";
        header.resize((header.size() + 7) / 8 * 8, ' ');
        std::string out(8, '\0');
        const uint64_t length = header.size();
        std::memcpy(out.data(), &length, 8);
        out += header;
        if (sparse) return out;
        std::mt19937_64 random(static_cast<uint64_t>(layer) + 1);
        const size_t begin = out.size();
        out.resize(begin + at);
        for (size_t i = begin; i + 8 <= out.size(); i += 8) {
            const uint64_t value = random();
            std::memcpy(out.data() + i, &value, 8);
        }
        return out;
    }
    std::string index() const {
        std::string map;
        for (int32_t layer = 0; layer < layers; ++layer) {
            for (int32_t expert = 0; expert < experts; ++expert) {
                for (int part = 0; part < expert_parts; ++part) {
                    map += cat(map.empty() ? "" : ",", "\"", expert_name({layer, expert}, part),
                               "\":\"", name(layer, layers), "\"");
                }
            }
        }
        return cat("{\"weight_map\":{", map, "}}");
    }
    // Writes the given shards to `folder`, with config and index if `companions`.
    void write(const std::filesystem::path& folder, const std::vector<int32_t>& shards,
               bool companions) const {
        for (int32_t layer : shards) {
            const std::filesystem::path path = folder / name(layer, layers);
            const std::string content = shard(layer);
            write_file(path, content);
            const uint64_t tensors = static_cast<uint64_t>(experts) * 3 * (codes + scales);
            if (sparse) std::filesystem::resize_file(path, content.size() + tensors);
        }
        if (!companions) return;
        write_file(folder / "config.json", "{}");
        write_file(folder / "model.safetensors.index.json", index());
    }
};

}  // namespace sluice
