// Safetensors files, taken apart, changed and put together again: valid ones with unusual layouts,
// and damaged ones. Writing does not use io/checkpoint/safetensors.h, so that an error of the
// reader cannot hide itself.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace sluice {

struct Container {
    struct Item {
        std::string name, dtype;
        std::vector<uint64_t> shape;
        uint64_t begin, end;  // relative to data
    };
    std::vector<Item> items;  // in the order of the header
    std::string data;
    std::string metadata;  // JSON text of __metadata__, or empty

    // `bytes` must be a valid file.
    static Container parse(const std::string& bytes);
    Item& at(std::string_view part) {
        const auto item = std::find_if(items.begin(), items.end(), [&](const Item& one) {
            return one.name.find(part) != std::string::npos;
        });
        assert(item != items.end());
        return *item;
    }
    std::string header() const;  // no padding
};

inline std::string little_endian(uint64_t value) {
    std::string out(8, '\0');
    for (int i = 0; i < 8; ++i) out[static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i));
    return out;
}

inline uint64_t header_length(const std::string& bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; --i) {
        value = value << 8 | static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
    }
    return value;
}

inline std::string assemble(const std::string& header, const std::string& data) {
    return little_endian(header.size()) + header + data;
}

// Header padded with spaces to a multiple of 8, as the usual writers do.
inline std::string padded(const Container& container) {
    std::string header = container.header();
    header.resize((header.size() + 7) / 8 * 8, ' ');
    return assemble(header, container.data);
}

inline Container Container::parse(const std::string& bytes) {
    const uint64_t length = header_length(bytes);
    const auto header = Json::parse(std::string_view(bytes).substr(8, length));
    assert(header);
    Container out;
    for (const std::string& name : header->keys()) {
        const Json value = (*header)[name];
        if (name == "__metadata__") {
            out.metadata = "{\"format\":\"pt\"}";
            continue;
        }
        Item item{name, *value["dtype"].string(), {}, 0, 0};
        const std::vector<int64_t> shape = *value["shape"].integers();
        for (const int64_t extent : shape) item.shape.push_back(static_cast<uint64_t>(extent));
        const std::vector<int64_t> offsets = *value["data_offsets"].integers();
        item.begin = static_cast<uint64_t>(offsets[0]);
        item.end = static_cast<uint64_t>(offsets[1]);
        out.items.push_back(std::move(item));
    }
    out.data = bytes.substr(8 + length);
    return out;
}

inline std::string Container::header() const {
    std::string out = "{";
    if (!metadata.empty()) out += "\"__metadata__\":" + metadata;
    for (const Item& item : items) {
        out += out.size() > 1 ? "," : "";
        out += json_quote(item.name) + ":{\"dtype\":" + json_quote(item.dtype) + ",\"shape\":[";
        for (size_t i = 0; i < item.shape.size(); ++i) {
            out += (i ? "," : "") + std::to_string(item.shape[i]);
        }
        out += "],\"data_offsets\":[" + std::to_string(item.begin) + "," +
               std::to_string(item.end) + "]}";
    }
    return out + "}";
}

namespace mutate {

inline std::string cut(const std::string& good, size_t bytes = 1) {
    return good.substr(0, good.size() - bytes);
}
inline std::string cut_in_head(const std::string& good) {
    return good.substr(0, 8 + header_length(good) / 2);
}
inline std::string only4(const std::string& good) {
    return good.substr(0, 4);
}
inline std::string length(const std::string& good, uint64_t value) {
    return little_endian(value) + good.substr(8);
}
// Valid: the data begins at 8 + the length of the JSON text + k, a multiple of 8 or not.
inline std::string unpadded(const std::string& good, size_t k) {
    const Container container = Container::parse(good);
    return assemble(container.header() + std::string(k, ' '), container.data);
}
inline std::string gap(const std::string& good) {
    Container container = Container::parse(good);
    container.items.back().end -= 1;
    return padded(container);
}
inline std::string tail(const std::string& good, size_t bytes = 4096) {
    return good + std::string(bytes, '\0');
}
inline std::string overlap(const std::string& good) {
    Container container = Container::parse(good);
    Container::Item& moved = container.items[1];
    const uint64_t bytes = moved.end - moved.begin;
    moved.begin = container.items[0].begin;
    moved.end = moved.begin + bytes;
    return padded(container);
}
inline std::string reverse(const std::string& good) {
    Container container = Container::parse(good);
    std::swap(container.items[0].begin, container.items[0].end);
    return padded(container);
}
inline std::string shape_lie(const std::string& good) {
    Container container = Container::parse(good);
    container.items[0].shape[0] *= 2;
    return padded(container);
}
// Gives the tensor whose name contains `part` another dtype; valid if the size is the same.
inline std::string dtype(const std::string& good, std::string_view part, const std::string& tag) {
    Container container = Container::parse(good);
    container.at(part).dtype = tag;
    return padded(container);
}
// Valid: removes the tensor and its bytes.
inline std::string drop_clean(const std::string& good, std::string_view part) {
    Container container = Container::parse(good);
    const Container::Item dropped = container.at(part);
    const uint64_t bytes = dropped.end - dropped.begin;
    std::erase_if(container.items,
                  [&](const Container::Item& item) { return item.name == dropped.name; });
    for (Container::Item& item : container.items) {
        if (item.begin < dropped.end) continue;
        item.begin -= bytes;
        item.end -= bytes;
    }
    container.data.erase(dropped.begin, bytes);
    return padded(container);
}
// Valid: the same tensors with their data in the order of `rank` (smaller first), back to back.
template <class Rank>
std::string reorder(const std::string& good, Rank rank) {
    Container container = Container::parse(good);
    std::stable_sort(container.items.begin(), container.items.end(),
                     [&](const auto& a, const auto& b) { return rank(a.name) < rank(b.name); });
    std::string data;
    for (Container::Item& item : container.items) {
        const uint64_t begin = data.size();
        data += container.data.substr(item.begin, item.end - item.begin);
        item.begin = begin;
        item.end = data.size();
    }
    container.data = std::move(data);
    return padded(container);
}
// Changes bytes of one tensor in place, from its byte `at` on.
inline std::string patched(std::string good, std::string_view tensor, uint64_t at,
                           std::string_view value) {
    const uint64_t begin = 8 + header_length(good) + Container::parse(good).at(tensor).begin + at;
    return good.replace(begin, value.size(), value);
}
// Valid: gives a tensor another shape, and bytes of its size, all alike.
inline std::string resized(const std::string& good, const std::string& tensor,
                           const std::vector<uint64_t>& shape, size_t bytes, char value) {
    const std::string dtype = Container::parse(good).at(tensor).dtype;
    Container container = Container::parse(drop_clean(good, tensor));
    const uint64_t begin = container.data.size();
    container.items.push_back({tensor, dtype, shape, begin, begin + bytes});
    container.data += std::string(bytes, value);
    return padded(container);
}
// Valid: another name.
inline std::string renamed(const std::string& good, std::string_view tensor,
                           const std::string& name) {
    Container container = Container::parse(good);
    container.at(tensor).name = name;
    return padded(container);
}
inline std::string lfs_pointer() {
    return "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, '0') +
           "\nsize 5368709120\n";
}
inline std::string html() {
    std::string out;
    for (int i = 0; i < 40; ++i) {
        out += "<!doctype html><html><body>401 Unauthorized</body></html>\n";
    }
    return out;
}

}  // namespace mutate
}  // namespace sluice
