#include "engine/model/model_shape.h"

#include "engine/model/model.h"
#include "io/text.h"

namespace sluice {

std::vector<std::string> shape_names() {
    std::vector<std::string> names;
    for (const ModelDescription* model : known_models()) {
        for (const NamedShape& one : model->shapes) names.emplace_back(one.name);
    }
    return names;
}

Result<FoundShape> find_shape(const std::string& name) {
    std::string known;
    for (const ModelDescription* model : known_models()) {
        for (const NamedShape& one : model->shapes) {
            if (name == one.name) return FoundShape{model, one.shape()};
            known += cat(known.empty() ? "" : ", ", one.name);
        }
    }
    return fail(Code::usage, cat("unknown shape \"", printable(name), "\"; known: ", known));
}

Result<std::string> shape_config(const std::string& name) {
    const auto found = find_shape(name);
    if (!found) return tl::unexpected(found.error());
    return found->model->config_text(found->shape, found->model->vocabulary);
}

std::string field_line(const char* name, const std::string& value) {
    return cat("  \"", name, "\": ", value, ",\n");
}

std::string field_line(const char* name, int64_t value) {
    return field_line(name, std::to_string(value));
}

std::string list_text(const std::vector<int64_t>& items) {
    std::string out;
    for (int64_t item : items) out += cat(out.empty() ? "" : ", ", item);
    return "[" + out + "]";
}

}  // namespace sluice
