// JSON without the library in sight: only json.cpp and json_events.cpp include it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// A parsed document, for small inputs (config.json, tokenizer.json, traces). Value semantics, cheap
// to copy (shares the document). Reading a missing member gives a null; the typed getters fail with
// an Error that names the path ("text_config.hidden_size: expected an integer, found \"x\"").
class Json {
 public:
    Json();
    // Strict JSON, with at most 128 levels and no key twice in an object. Errors are corrupt, with
    // line and column, and safe to print.
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
    size_t size() const;                    // of an array or object, else 0
    std::vector<std::string> keys() const;  // in document order

    Result<int64_t> integer() const;  // whole numbers only: 64 bits kept, 3.5 and 1e3 refused
    Result<double> number() const;
    Result<bool> boolean() const;
    Result<std::string> string() const;
    Result<std::vector<int64_t>> integers() const;
    const std::string& path() const;  // for messages

    // Visits an object's members in document order, without copies, for large objects (the
    // vocabulary). Returning false stops.
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

// Text as a JSON string literal with quotes; each byte of invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace sluice
