// A text with named fields, as Python's str.format reads it: "{schema}" is a field, "{{" and "}}"
// are braces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// Immutable; any thread.
class TextTemplate {
 public:
    // `name` is where the text comes from, for messages. unsupported, naming the field: a
    // conversion, format, attribute, index or number. corrupt: a single brace.
    static Result<TextTemplate> parse(std::string name, std::string_view text);

    struct Field {
        std::string_view name, value;
        bool wording = false;  // the value belongs to the fixed text, as a control token does
        bool needed = false;
    };
    // A stretch of the filled text that is fixed wording, or one that was given.
    struct Segment {
        std::string text;
        bool wording;
    };
    // Neighbouring segments differ in `wording`. unsupported: a field of the text is not among
    // `fields`, or one that is needed is not in the text; named.
    Result<std::vector<Segment>> fill(std::span<const Field> fields) const;

    bool has(std::string_view field) const;

 private:
    struct Part {
        std::string text;  // fixed text, or the name of a field
        bool is_field;
    };
    std::string name_;
    std::vector<Part> parts_;
};

}  // namespace sluice
