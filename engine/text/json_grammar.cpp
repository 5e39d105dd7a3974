#include "engine/text/json_grammar.h"

#include <algorithm>

namespace sluice {

using namespace json;

namespace {

class Measure {
 public:
    explicit Measure(const JsonGrammar& grammar) : grammar_(grammar) {}

    uint32_t operator()(const Literals&) const { return 0; }
    uint32_t operator()(const String&) const { return 0; }
    uint32_t operator()(const Number&) const { return 0; }
    uint32_t operator()(const Object& object) const {
        uint32_t inside = 0;
        for (const Property& property : object.properties)
            if (property.required) inside = std::max(inside, height(property.value));
        return std::min(inside + 1, impossible);
    }
    uint32_t operator()(const Array& array) const {
        uint32_t inside = 0;
        for (uint32_t i = 0; i < array.min && i <= array.first.size(); ++i) {
            const bool is_first = i < array.first.size();
            if (!is_first && !array.others) return impossible;
            inside = std::max(inside, height(is_first ? array.first[i] : *array.others));
        }
        return std::min(inside + 1, impossible);
    }

 private:
    uint32_t height(ValueId value) const { return grammar_.values[value].height; }
    const JsonGrammar& grammar_;
};

}  // namespace

// Heights only fall from round to round, and after n rounds all that are below n are right.
void JsonGrammar::measure() {
    heights.assign(shapes.size(), impossible);
    for (Value& value : values) value.height = impossible;
    for (uint32_t round = 0; round <= nesting_max; ++round) {
        bool changed = false;
        for (size_t i = 0; i < shapes.size(); ++i)
            heights[i] = std::visit(Measure(*this), shapes[i]);
        for (Value& value : values) {
            uint32_t lowest = impossible;
            for (ShapeId shape : value.shapes) lowest = std::min(lowest, heights[shape]);
            changed = changed || lowest != value.height;
            value.height = lowest;
        }
        if (!changed) return;
    }
}

JsonGrammar basic_grammar() {
    JsonGrammar out;
    out.shapes.emplace_back(String{});
    Literals words;
    uint32_t number = 0;
    for (const char* word : {"false", "null", "true"}) words.texts.add(word, number++);
    out.shapes.emplace_back(std::move(words));
    out.shapes.emplace_back(Number{});
    Object object;
    object.others = JsonGrammar::any_value;
    object.next_required = {0};
    out.shapes.emplace_back(std::move(object));
    Array array;
    array.others = JsonGrammar::any_value;
    out.shapes.emplace_back(std::move(array));
    out.values.push_back({{0, 1, 2, 3, 4}, 0});
    return out;
}

std::shared_ptr<const JsonGrammar> any_object_grammar() {
    static const auto grammar = [] {
        JsonGrammar out = basic_grammar();
        constexpr ShapeId object = 3;
        out.root = static_cast<ValueId>(out.values.size());
        out.values.push_back({{object}, 1});
        out.measure();
        return std::make_shared<const JsonGrammar>(std::move(out));
    }();
    return grammar;
}

}  // namespace sluice
