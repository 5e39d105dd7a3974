#include "tools/answer/answer_format.h"

#include <utility>

#include "engine/text/json_constraint.h"
#include "engine/text/json_schema.h"
#include "io/text.h"
#include "tools/options/user_text.h"

namespace sluice {

Result<std::shared_ptr<const JsonGrammar>> answer_grammar(const AnswerFormat& format) {
    switch (format.kind) {
        case ResponseFormat::text:
            return nullptr;
        case ResponseFormat::json_object:
            return any_object_grammar();
        case ResponseFormat::json_schema:
            break;
    }
    return compile_json_schema(format.schema);
}

Result<AnswerFormat> format_of(const std::string& flag) {
    if (flag.empty()) return AnswerFormat{};
    if (flag == "json") return AnswerFormat{ResponseFormat::json_object};
    auto schema = read_user_file("--format", flag);
    if (!schema) return tl::unexpected(schema.error());
    AnswerFormat format{ResponseFormat::json_schema, std::move(*schema)};
    if (auto grammar = answer_grammar(format); !grammar) {
        return within(cat("--format: ", printable(flag)), grammar.error());
    }
    return format;
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
