#include "engine/text/json_schema.h"

#include <algorithm>
#include <utility>

#include "engine/text/schema_compiler.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice {

namespace {

// OpenAI's {"name": ..., "schema": ...}: a schema has no member "schema" of its own.
Json without_wrapper(const Json& document) {
    const Json schema = document["schema"];
    if (!schema.is_object() && !schema.is_bool()) return document;
    for (const std::string& key : document.keys()) {
        if (key != "name" && key != "schema" && key != "strict" && key != "description")
            return document;
    }
    return schema;
}

}  // namespace

Result<std::shared_ptr<const JsonGrammar>> compile_json_schema(std::string_view text) {
    auto document = Json::parse(text);
    if (!document) return fail(Code::usage, cat("JSON schema: ", document.error().message));
    auto grammar = SchemaCompiler(without_wrapper(*document)).compile();
    if (!grammar) return tl::unexpected(grammar.error());
    return std::make_shared<const JsonGrammar>(std::move(*grammar));
}

}  // namespace sluice
