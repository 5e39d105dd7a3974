// Walks a JSON Schema and writes a SchemaDraft. json_schema.h says what is supported.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/json_grammar.h"
#include "engine/text/schema_draft.h"
#include "io/error.h"
#include "io/json.h"

namespace sluice {

class SchemaCompiler {
 public:
    explicit SchemaCompiler(Json schema) : root_(std::move(schema)) {}
    // Once.
    Result<JsonGrammar> compile();

 private:
    using ValueId = json::ValueId;

    // The first refusal stays; after it nothing that these return is used.
    void refuse(const Json& at, std::string_view why);
    void unsupported(const Json& at, std::string_view name, std::string_view hint = {});

    ValueId add_value(const Json& schema);
    ValueId value(const Json& schema);
    void fill(ValueId id, const Json& schema);
    // Refuses unknown keywords; returns the one that decides alone ("$ref", "enum", ...), or "".
    std::string check_keywords(const Json& schema);
    void reference(ValueId id, const Json& ref);
    void branches(ValueId id, const Json& list, std::string_view keyword);
    void constants(ValueId id, const Json& schema);
    void typed(ValueId id, const Json& schema);
    std::vector<std::string> types(ValueId id, const Json& schema);
    void one_type(ValueId id, const std::string& type, const Json& schema);
    void string(ValueId id, const Json& schema);
    void array(ValueId id, const Json& schema);
    void object(ValueId id, const Json& schema);
    bool required_names(const Json& schema, std::vector<std::string>& names);
    void number(ValueId id, const Json& schema);
    void integer(ValueId id, const Json& schema);
    std::optional<int64_t> integer_bound(const Json& schema, std::string_view inclusive,
                                         std::string_view exclusive, int64_t inwards);
    // The members `min_key` and `max_key`. False: no count is in the range, or refused.
    bool range(const Json& schema, std::string_view min_key, std::string_view max_key,
               uint32_t& min, uint32_t& max);
    void count_bytes(const Json& at, size_t bytes);

    Json root_;
    SchemaDraft draft_;
    std::map<std::string, ValueId> references_;  // by "$ref"
    std::deque<std::pair<ValueId, Json>> open_;  // referred to, and not compiled yet
    std::optional<Error> error_;
    size_t bytes_ = 0;  // of names and constants
};

}  // namespace sluice
