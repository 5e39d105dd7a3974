#include "engine/text/schema_draft.h"

#include <algorithm>
#include <unordered_set>

#include "engine/text/schema_literals.h"
#include "io/text.h"

namespace sluice {

using namespace json;

namespace {

constexpr size_t alternatives_max = 100'000, comparisons_max = 1'000'000;
constexpr size_t levels_max = 128;  // references that refer on
constexpr int property_levels = 2;  // objects inside objects that are compared

tl::unexpected<Error> refused(const std::string& path, std::string_view why) {
    return fail(Code::usage, cat("JSON schema: ", path, ": ", why));
}

std::string_view type_of_shape(const Shape& shape) {
    constexpr std::string_view types[] = {"", "string", "number", "object", "array"};
    return types[shape.index()];
}

bool is_container(std::string_view text) {
    return text[0] == '{' || text[0] == '[';
}

// Whether two sorted lists of constants have no value in common. The text of an object or array is
// one of several for its value.
bool disjoint_texts(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    if (std::any_of(a.begin(), a.end(), is_container) &&
        std::any_of(b.begin(), b.end(), is_container))
        return false;
    std::vector<std::string> common;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
    return common.empty();
}

}  // namespace

SchemaDraft::SchemaDraft() : grammar_(basic_grammar()) {
    for (const Value& value : grammar_.values) {
        drafts_.emplace_back();
        drafts_.back().shapes = value.shapes;
    }
    texts_.resize(grammar_.shapes.size());
    names_.resize(grammar_.shapes.size());
    texts_[1] = {"false", "null", "true"};  // of basic_grammar()
}

ValueId SchemaDraft::add_value(std::string path) {
    drafts_.emplace_back();
    drafts_.back().path = std::move(path);
    return static_cast<ValueId>(drafts_.size() - 1);
}

ShapeId SchemaDraft::add_shape(Shape shape) {
    grammar_.shapes.push_back(std::move(shape));
    texts_.emplace_back();
    names_.emplace_back();
    return static_cast<ShapeId>(grammar_.shapes.size() - 1);
}

ShapeId SchemaDraft::add_literals(std::vector<std::string> texts) {
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    Literals literals;
    for (uint32_t i = 0; i < texts.size(); ++i) literals.texts.add(texts[i], i);
    const ShapeId id = add_shape(std::move(literals));
    texts_[id] = std::move(texts);
    return id;
}

ShapeId SchemaDraft::add_object(Object object, std::vector<std::string> names) {
    const ShapeId id = add_shape(std::move(object));
    names_[id] = std::move(names);
    return id;
}

Result<JsonGrammar> SchemaDraft::finish(ValueId root) && {
    for (ValueId id = 0; id < drafts_.size(); ++id) {
        if (auto done = resolve(id, 0); !done) return tl::unexpected(done.error());
    }
    grammar_.values.resize(drafts_.size());
    for (size_t i = 0; i < drafts_.size(); ++i) grammar_.values[i].shapes = drafts_[i].shapes;
    grammar_.root = root;
    grammar_.measure();
    if (grammar_.values[root].height > nesting_max)
        return refused(drafts_[root].path,
                       cat("no JSON value of at most ", nesting_max, " nested levels is valid"));
    for (const auto& [path, branches] : apart_) {
        if (auto apart = check_apart(path, branches); !apart) return tl::unexpected(apart.error());
    }
    return std::move(grammar_);
}

// Replaces the values that `value` may be by their shapes.
Result<void> SchemaDraft::resolve(ValueId value, size_t level) {
    Draft& draft = drafts_[value];  // stays where it is: no value is added any more
    if (draft.state == Draft::done) return {};
    if (draft.state == Draft::active)
        return refused(draft.path, "\"$ref\" leads back to itself without anything in between");
    if (level == levels_max)
        return refused(draft.path, cat("more than ", levels_max, " references that refer on"));
    draft.state = Draft::active;
    std::unordered_set<ShapeId> known(draft.shapes.begin(), draft.shapes.end());
    for (ValueId other : draft.values) {
        if (auto done = resolve(other, level + 1); !done) return done;
        draft.narrowed = draft.narrowed || drafts_[other].narrowed;
        alternatives_ += drafts_[other].shapes.size();
        if (alternatives_ > alternatives_max)
            return refused(draft.path, cat("more than ", alternatives_max, " alternatives in all"));
        for (ShapeId shape : drafts_[other].shapes) {
            if (known.insert(shape).second) draft.shapes.push_back(shape);
        }
    }
    draft.state = Draft::done;
    return {};
}

Result<void> SchemaDraft::check_apart(const std::string& path,
                                      const std::vector<ValueId>& branches) {
    for (size_t i = 0; i < branches.size(); ++i) {
        for (size_t j = i + 1; j < branches.size(); ++j) {
            if (disjoint(branches[i], branches[j], 0)) continue;
            return refused(path, cat("a value may be valid under branches ", i, " and ", j,
                                     ", which is not supported; use \"anyOf\""));
        }
    }
    return {};
}

bool SchemaDraft::disjoint(ValueId a, ValueId b, int level) {
    if (drafts_[a].narrowed || drafts_[b].narrowed) return false;
    for (ShapeId x : drafts_[a].shapes) {
        for (ShapeId y : drafts_[b].shapes) {
            if (++comparisons_ > comparisons_max || !disjoint_shapes(x, y, level)) return false;
        }
    }
    return true;
}

bool SchemaDraft::disjoint_shapes(ShapeId a, ShapeId b, int level) {
    if (texts_[a].empty()) std::swap(a, b);
    const auto of_b = type_of_shape(grammar_.shapes[b]);
    if (!texts_[a].empty()) {
        if (!texts_[b].empty()) return disjoint_texts(texts_[a], texts_[b]);
        return std::none_of(texts_[a].begin(), texts_[a].end(),
                            [&](const std::string& text) { return type_of_text(text) == of_b; });
    }
    if (type_of_shape(grammar_.shapes[a]) != of_b) return true;
    const auto* object = std::get_if<Object>(&grammar_.shapes[a]);
    if (object == nullptr || level == property_levels) return false;
    // By name: what both require must not have a value in common.
    const auto& other = *std::get_if<Object>(&grammar_.shapes[b]);
    for (size_t i = 0; i < names_[a].size(); ++i) {
        const auto found = std::find(names_[b].begin(), names_[b].end(), names_[a][i]);
        if (!object->properties[i].required || found == names_[b].end()) continue;
        const Property& match = other.properties[static_cast<size_t>(found - names_[b].begin())];
        comparisons_ += names_[b].size();
        if (match.required && disjoint(object->properties[i].value, match.value, level + 1))
            return true;
    }
    return false;
}

}  // namespace sluice
