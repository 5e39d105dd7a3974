// The form that an answer must have, and the constraint that gives it that form.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/text/json_grammar.h"
#include "engine/text/token_constraint.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

enum class ResponseFormat { text, json_object, json_schema };

struct AnswerFormat {
    ResponseFormat kind = ResponseFormat::text;
    std::string schema = {};  // of json_schema: JSON text
};

// Null for text. Errors are those of compile_json_schema().
Result<std::shared_ptr<const JsonGrammar>> answer_grammar(const AnswerFormat& format);

// The value of --format: "json" or the name of a file with a JSON schema; empty: text. Errors name
// the flag; what is returned compiles.
Result<AnswerFormat> format_of(const std::string& flag);

// A tool call that an answer may be, or must be.
struct CallRule {
    std::vector<int32_t> prefix = {};  // the tokens that a call begins with; empty: no calls
    bool required = false;
};

// For one answer: a text of `grammar` (null: any text), or, if the rule has a prefix, a call. Null
// if anything may come.
std::shared_ptr<TokenConstraint> answer_constraint(const Tokenizer& tokenizer,
                                                   std::span<const int32_t> end_tokens,
                                                   std::shared_ptr<const JsonGrammar> grammar,
                                                   const CallRule& call = {});

}  // namespace sluice
