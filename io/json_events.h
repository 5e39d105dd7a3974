// JSON as a stream of events, for documents too large for a tree (shard headers, the index).
// json_events.cpp and json.cpp are the only files that include the library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// Told of each value in document order. A handler returns an empty string to go on, or the clause
// of the error that stops the parse. Views live as long as the call. Whole numbers below zero come
// as negative(), numbers with fraction, exponent or more than 64 bits as fraction().
class JsonEvents {
 public:
    virtual ~JsonEvents() = default;
    virtual std::string null() = 0;
    virtual std::string boolean(bool value) = 0;
    virtual std::string whole(uint64_t value) = 0;
    virtual std::string negative(int64_t value) = 0;
    virtual std::string fraction(double value) = 0;
    virtual std::string text(std::string_view value) = 0;
    virtual std::string key(std::string_view name) = 0;
    virtual std::string begin_object() = 0;
    virtual std::string end_object() = 0;
    virtual std::string begin_array() = 0;
    virtual std::string end_array() = 0;
};

// One document and nothing after it but white space. Fails with corrupt: bad syntax or UTF-8 (with
// the byte where), nesting deeper than 128, or the handler's clause. No recursion; memory is one
// string.
Result<void> parse_json_events(std::string_view json, JsonEvents& events);

}  // namespace sluice
