// A checkpoint of nothing but experts, of a size at which drives show their speed.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "io/text.h"
#include "tests/support/expert_rig.h"
#include "tests/support/temp_dir.h"

namespace sluice {

struct ExpertShards {
    int32_t layers = 2, experts = 12;
    uint64_t codes = 448u << 10, scales = 28u << 10;  // bytes of one tensor

    static std::string name(int32_t layer, int32_t layers) {
        char text[64];
        std::snprintf(text, sizeof text, "model-%05d-of-%05d.safetensors", layer + 1, layers);
        return text;
    }
    // The shard of `layer`, one after the other, as many layers as experts[].
    std::string shard(int32_t layer) const {
        std::string header = "{";
        uint64_t at = 0;
        for (int32_t expert = 0; expert < experts; expert++) {
            for (int part = 0; part < expert_parts; part++) {
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
        for (int32_t layer = 0; layer < layers; layer++) {
            for (int32_t expert = 0; expert < experts; expert++) {
                for (int part = 0; part < expert_parts; part++) {
                    map += cat(map.empty() ? "" : ",", "\"", expert_name({layer, expert}, part),
                               "\":\"", name(layer, layers), "\"");
                }
            }
        }
        return cat("{\"weight_map\":{", map, "}}");
    }
    // `shards` of it into `folder`, with config and index if it is to be a model's.
    void write(const std::filesystem::path& folder, const std::vector<int32_t>& shards,
               bool companions) const {
        for (int32_t layer : shards) write_file(folder / name(layer, layers), shard(layer));
        if (!companions) return;
        write_file(folder / "config.json", "{}");
        write_file(folder / "model.safetensors.index.json", index());
    }
};

}  // namespace sluice
