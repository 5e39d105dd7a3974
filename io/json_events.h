// JSON as a stream of events, for documents too large for a tree (shard headers, the index); json.h
// is for small ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// Receives each value in document order. A handler returns an empty string to continue, or the
// clause of the error that stops the parse. String views are valid only during the call. Negative
// whole numbers arrive as negative(); numbers with a fraction, an exponent or more than 64 bits as
// fraction().
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

// Parses one document; only white space may follow it. Fails (corrupt) on invalid syntax or UTF-8,
// naming the byte position, on nesting deeper than 128 levels, and with the handler's clause. Not
// recursive; the only memory it needs is one string.
Result<void> parse_json_events(std::string_view json, JsonEvents& events);

}  // namespace sluice
