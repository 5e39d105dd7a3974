#include "io/checkpoint/weight_index.h"

#include <algorithm>
#include <unordered_map>

#include "io/checkpoint/file_kind.h"
#include "io/file.h"
#include "io/json_events.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t index_bytes_max = 256u << 20;

// {"metadata": {"total_size": 1}, "weight_map": {"tensor": "file"}}; other members are ignored.
class IndexEvents final : public JsonEvents {
 public:
    WeightIndex index;

    std::string null() override { return other(); }
    std::string boolean(bool) override { return other(); }
    std::string negative(int64_t) override { return other(); }
    std::string fraction(double) override { return other(); }
    std::string whole(uint64_t value) override {
        if (depth_ == 2 && section_ == "metadata" && key_ == "total_size") index.total_size = value;
        return other();
    }
    std::string text(std::string_view value) override {
        if (depth_ != 2 || section_ != "weight_map") return other();
        return add(value);
    }
    std::string key(std::string_view name) override {
        (depth_ == 1 ? section_ : key_) = name;
        return "";
    }
    std::string begin_object() override {
        if (in_map()) return other();
        if (depth_ == 1 && section_ == "weight_map") had_map_ = true;
        ++depth_;
        return "";
    }
    std::string end_object() override {
        --depth_;
        return "";
    }
    std::string begin_array() override {
        if (std::string refusal = other(); !refusal.empty()) return refusal;
        ++depth_;
        return "";
    }
    std::string end_array() override {
        --depth_;
        return "";
    }
    bool had_map() const { return had_map_; }

 private:
    bool in_map() const { return depth_ == 2 && section_ == "weight_map"; }
    std::string other() const {
        if (depth_ == 0) return "not a JSON object";
        if (depth_ == 1 && section_ == "weight_map") return "weight_map is not an object";
        if (in_map()) return cat("tensor \"", printable(key_), "\": its file name is not a string");
        return "";
    }
    std::string add(std::string_view file);

    int depth_ = 0;
    bool had_map_ = false;
    std::string section_, key_;
    std::unordered_map<std::string, uint32_t> files_;
};

std::string IndexEvents::add(std::string_view file) {
    const bool plain = !file.empty() && file != "." && file != ".." &&
                       file.find_first_of(std::string_view("/\0", 2)) == file.npos;
    if (!plain) {
        return cat("tensor \"", printable(key_), "\" is mapped to \"", printable(file),
                   "\", which is not a plain file name");
    }
    const auto [at, is_new] =
        files_.try_emplace(std::string(file), static_cast<uint32_t>(index.files.size()));
    if (is_new) index.files.emplace_back(file);
    index.entries.push_back({key_, at->second});
    return "";
}

// Numbers the files in the order of their names, whatever their order in the document.
void sort_files(WeightIndex& index) {
    std::vector<uint32_t> order(index.files.size()), rank(index.files.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return index.files[a] < index.files[b]; });
    std::vector<std::string> sorted;
    for (uint32_t i = 0; i < order.size(); ++i) {
        rank[order[i]] = i;
        sorted.push_back(std::move(index.files[order[i]]));
    }
    index.files = std::move(sorted);
    for (WeightIndex::Entry& entry : index.entries) entry.file = rank[entry.file];
}

Result<void> check_twins(const WeightIndex& index) {
    std::vector<std::string_view> names;
    names.reserve(index.entries.size());
    for (const WeightIndex::Entry& entry : index.entries) names.push_back(entry.tensor);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin == names.end()) return {};
    return fail(Code::corrupt, cat("tensor \"", printable(*twin), "\" is named twice"));
}

}  // namespace

Result<WeightIndex> read_weight_index(const std::filesystem::path& path) {
    auto text = read_text(path, index_bytes_max);
    if (!text) return tl::unexpected(std::move(text).error());
    const std::string shown = printable(path.string());
    if (text->empty()) return fail(Code::corrupt, cat(shown, ": the file is empty"));
    IndexEvents events;
    if (auto parsed = parse_json_events(*text, events); !parsed) {
        const std::string kind =
            text->front() == '{' ? "" : describe_file_kind(*text, text->size());
        if (kind.empty()) return within(shown, std::move(parsed).error());
        return fail(Code::corrupt, cat(shown, ": not an index but ", kind));
    }
    if (!events.had_map() || events.index.entries.empty()) {
        return fail(Code::corrupt, cat(shown, ": weight_map is missing or empty"));
    }
    if (auto ok = check_twins(events.index); !ok) return within(shown, std::move(ok).error());
    sort_files(events.index);
    return std::move(events.index);
}

}  // namespace sluice
