#include "tools/answer/json_writer.h"

#include <cmath>

#include "io/format.h"
#include "io/json.h"

namespace sluice {

JsonWriter& JsonWriter::raw(std::string_view text) {
    if (comma_) text_ += ',';
    text_ += text;
    comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
    raw(std::string_view(&bracket, 1));
    comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
    text_ += bracket;
    comma_ = true;
    return *this;
}

JsonWriter& JsonWriter::begin_object() {
    return open('{');
}
JsonWriter& JsonWriter::end_object() {
    return close('}');
}
JsonWriter& JsonWriter::begin_array() {
    return open('[');
}
JsonWriter& JsonWriter::end_array() {
    return close(']');
}

JsonWriter& JsonWriter::key(std::string_view name) {
    raw(json_quote(name));
    text_ += ':';
    comma_ = false;
    return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
    return raw(json_quote(text));
}

JsonWriter& JsonWriter::value(double number) {
    if (!std::isfinite(number)) return null();
    return raw(formatted("{:.9g}", number));
}

}  // namespace sluice
