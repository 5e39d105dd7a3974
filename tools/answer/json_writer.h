// Writes JSON text value by value; adds commas and quotes where they are needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice {

//     JsonWriter json;
//     json.begin_object().member("text", "hi").member("n", 3).end_object();
//     json.text();  // {"text":"hi","n":3}
// Invalid UTF-8 in strings becomes U+FFFD; non-finite numbers become null.
class JsonWriter {
 public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);

    JsonWriter& value(std::string_view text);
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
    JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
    JsonWriter& value(double number);
    template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) JsonWriter& value(T number) {
        return raw(std::to_string(number));
    }
    JsonWriter& null() { return raw("null"); }
    JsonWriter& json(std::string_view text) { return raw(text); }  // `text` is JSON already

    template <class T>
    JsonWriter& member(std::string_view name, const T& content) {
        key(name);
        return value(content);
    }
    const std::string& text() const { return text_; }

 private:
    JsonWriter& raw(std::string_view text);
    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);
    std::string text_;
    bool comma_ = false;
};

}  // namespace sluice
