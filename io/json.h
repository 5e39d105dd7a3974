// JSON documents as values. Only json.cpp and json_events.cpp include the JSON library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// A parsed document, for small inputs (config.json, tokenizer.json, traces). Value semantics; a
// copy is cheap and shares the document. Reading a missing member gives null; the typed getters
// fail with an Error that names the path ("text_config.hidden_size: expected an integer, found
// \"x\"").
class Json {
 public:
    Json();
    // Strict JSON, nested at most 128 levels deep, without duplicate keys. Errors (corrupt) give
    // line and column and are safe to print.
    static Result<Json> parse(std::string_view text);

    bool is_null() const;  // null or missing
    bool is_object() const;
    bool is_array() const;
    bool is_string() const;
    bool is_number() const;
    bool is_bool() const;
    bool has(std::string_view key) const;
    Json operator[](std::string_view key) const;
    Json at(size_t index) const;
    size_t size() const;                    // elements or members; else 0
    std::vector<std::string> keys() const;  // in document order

    Result<int64_t> integer() const;  // a whole number of 64 bits; 3.5 and 1e3 are refused
    Result<double> number() const;
    std::string whole_number() const;  // its digits, however many; empty for any other value
    Result<bool> boolean() const;
    Result<std::string> string() const;
    Result<std::vector<int64_t>> integers() const;
    const std::string& path() const;  // for messages

    // Visits an object's members in document order without copying them, for large objects such as
    // the vocabulary. Stops when `visit` returns false.
    void each_member(
        const std::function<bool(std::string_view key, const Json& value)>& visit) const;

 private:
    struct Node;
    struct Builder;
    Json(std::shared_ptr<const Node> node, std::string path);
    std::string member_path(std::string_view key) const;
    tl::unexpected<Error> mistyped(std::string_view expected) const;

    std::shared_ptr<const Node> node_;  // null: missing
    std::string path_;
};

// `text` as a JSON string literal, quotes included. Each invalid UTF-8 byte becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace sluice
