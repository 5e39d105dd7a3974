#include "tools/answer/answer_format.h"

#include <utility>

#include "engine/text/json_constraint.h"
#include "engine/text/json_schema.h"
#include "io/text.h"
#include "tools/options/user_text.h"

namespace sluice {

Result<std::shared_ptr<const JsonGrammar>> answer_grammar(ResponseFormat format,
                                                          const std::string& schema) {
    switch (format) {
        case ResponseFormat::text:
            return nullptr;
        case ResponseFormat::json_object:
            return any_object_grammar();
        case ResponseFormat::json_schema:
            break;
    }
    return compile_json_schema(schema);
}

Result<std::shared_ptr<const JsonGrammar>> format_grammar(const std::string& format) {
    if (format.empty()) return nullptr;
    if (format == "json") return any_object_grammar();
    auto schema = read_user_file("--format", format);
    if (!schema) return tl::unexpected(schema.error());
    auto grammar = compile_json_schema(*schema);
    if (!grammar) return within(cat("--format: ", printable(format)), grammar.error());
    return grammar;
}

std::shared_ptr<TokenConstraint> answer_constraint(const Tokenizer& tokenizer,
                                                   std::span<const int32_t> end_tokens,
                                                   std::shared_ptr<const JsonGrammar> grammar,
                                                   const CallRule& call) {
    if (call.required) return std::make_shared<ForcedPrefix>(call.prefix);
    if (!grammar) return nullptr;
    auto json = std::make_unique<JsonConstraint>(tokenizer, end_tokens, std::move(grammar));
    if (call.prefix.empty()) return json;
    std::vector<std::unique_ptr<TokenConstraint>> either;
    either.push_back(std::move(json));
    either.push_back(std::make_unique<ForcedPrefix>(call.prefix));
    return std::make_shared<EitherConstraint>(std::move(either),
                                              static_cast<size_t>(tokenizer.size()));
}

}  // namespace sluice
