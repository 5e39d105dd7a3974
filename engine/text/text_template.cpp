#include "engine/text/text_template.h"

#include <algorithm>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace {

bool is_identifier(std::string_view text) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    if (text.empty() || !letter(text[0])) return false;
    return std::all_of(text.begin(), text.end(),
                       [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<TextTemplate> TextTemplate::parse(std::string name, std::string_view text) {
    TextTemplate out;
    out.name_ = std::move(name);
    std::string fixed;
    const auto close_fixed = [&] {
        if (!fixed.empty()) out.parts_.push_back({std::exchange(fixed, {}), false});
    };
    const auto single = [&](char brace) {
        return fail(Code::corrupt, cat(out.name_, ": a single '", brace, "': write it twice"));
    };
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c != '{' && c != '}') {
            fixed += c;
            continue;
        }
        if (i + 1 < text.size() && text[i + 1] == c) {
            fixed += c;
            ++i;
            continue;
        }
        const size_t end = text.find_first_of("{}", i + 1);
        if (c == '}' || end == std::string_view::npos) return single(c);
        const std::string_view field = text.substr(i + 1, end - i - 1);
        if (text[end] == '{' || !is_identifier(field)) {
            return fail(Code::unsupported, cat(out.name_, ": the field {", printable(field),
                                               "} is not supported: only plain names are"));
        }
        close_fixed();
        out.parts_.push_back({std::string(field), true});
        i = end;
    }
    close_fixed();
    return out;
}

bool TextTemplate::has(std::string_view field) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const Part& part) { return part.is_field && part.text == field; });
}

Result<std::vector<TextTemplate::Segment>> TextTemplate::fill(std::span<const Field> fields) const {
    for (const Field& field : fields) {
        if (field.needed && !has(field.name))
            return fail(Code::unsupported, cat(name_, ": no field {", field.name, "} in the text"));
    }
    std::vector<Segment> out;
    const auto add = [&](std::string_view text, bool wording) {
        if (text.empty()) return;
        if (out.empty() || out.back().wording != wording) out.push_back({"", wording});
        out.back().text += text;
    };
    for (const Part& part : parts_) {
        if (!part.is_field) {
            add(part.text, true);
            continue;
        }
        const auto field = std::find_if(fields.begin(), fields.end(),
                                        [&](const Field& one) { return one.name == part.text; });
        if (field == fields.end()) {
            return fail(Code::unsupported,
                        cat(name_, ": unknown field {", printable(part.text), "}"));
        }
        add(field->value, field->wording);
    }
    return out;
}

}  // namespace sluice
