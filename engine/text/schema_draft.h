// A grammar while its schema is compiled: values may still refer to each other. Then the references
// are followed, and branches of oneOf compared.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/json_grammar.h"
#include "io/error.h"

namespace sluice {

class SchemaDraft {
 public:
    SchemaDraft();

    // A value without alternatives, which is valid for nothing. `path`: of its schema.
    json::ValueId add_value(std::string path);
    json::ShapeId add_shape(json::Shape shape);
    // One of these texts.
    json::ShapeId add_literals(std::vector<std::string> texts);
    // `names`: of the properties.
    json::ShapeId add_object(json::Object object, std::vector<std::string> names);
    void may_be(json::ValueId value, json::ShapeId shape) {
        drafts_[value].shapes.push_back(shape);
    }
    void may_be_as(json::ValueId value, json::ValueId other) {
        drafts_[value].values.push_back(other);
    }
    // The grammar has fewer texts for `value` than its schema has.
    void set_narrowed(json::ValueId value) { drafts_[value].narrowed = true; }
    // No text may be valid for two of these.
    void keep_apart(std::string path, std::vector<json::ValueId> branches) {
        apart_.emplace_back(std::move(path), std::move(branches));
    }
    size_t values() const { return drafts_.size(); }

    Result<JsonGrammar> finish(json::ValueId root) &&;

 private:
    struct Draft {
        std::string path;
        std::vector<json::ShapeId> shapes;
        std::vector<json::ValueId> values;
        bool narrowed = false;
        enum { open, active, done } state = open;
    };
    Result<void> resolve(json::ValueId value, size_t level);
    Result<void> check_apart(const std::string& path, const std::vector<json::ValueId>& branches);
    bool disjoint(json::ValueId a, json::ValueId b, int level);
    bool disjoint_shapes(json::ShapeId a, json::ShapeId b, int level);

    JsonGrammar grammar_;
    std::vector<Draft> drafts_;                    // by value
    std::vector<std::vector<std::string>> texts_;  // by shape: of literals, sorted
    std::vector<std::vector<std::string>> names_;  // by shape: of an object's properties
    std::vector<std::pair<std::string, std::vector<json::ValueId>>> apart_;
    size_t alternatives_ = 0, comparisons_ = 0;
};

}  // namespace sluice
