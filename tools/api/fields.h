// The fields of a request as tables: what each one is read into, and which are known but without
// effect or refused. Shared by all dialects.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "io/error.h"
#include "io/json.h"
#include "tools/api/dialect.h"

namespace sluice {

// A request while its fields are read, with what only several of them together decide.
struct Draft {
    // A stream cannot take back what it has shown as reasoning, and all replies say the same.
    explicit Draft(const AnswerRequest& defaults) {
        out.answer = defaults;
        out.answer.unclosed = Unclosed::stays_reasoning;
    }

    ApiRequest out;
    bool logprobs = false;
    std::optional<int32_t> top_logprobs;
    std::optional<bool> thinking;       // beats what an effort implies
    bool may_continue = false;          // the last message, if it is an assistant's
    std::string instructions;           // goes before the messages
    std::vector<std::string> declared;  // names of the tools

    AnswerRequest& answer() { return out.answer; }
    SamplerOptions& sampler() { return out.answer.sampler; }
};

enum class Use {
    used,
    ignored,  // whatever its value: it changes nothing here
    refused,  // unless null or what `read` accepts
};

struct Field {
    std::string_view name;
    Use use;
    // used: reads a value that is not null. refused: an error unless the value asks for nothing;
    // nullptr: any value is refused.
    Result<void> (*read)(const Json& value, Draft& draft) = nullptr;
    std::string_view reason = {};  // refused: the clause after the field's name
};
using FieldTable = std::span<const Field>;

// The fields of `body`, an object, by the first table that has the name. null is as good as
// missing. Unknown names and ignored fields are listed in draft.out.ignored. Errors: usage, or
// unsupported for what is refused; they begin with the field's path.
Result<void> read_fields(const Json& body, std::initializer_list<FieldTable> tables, Draft& draft);

// The body as an object. usage, and safe to print, for anything else.
Result<Json> parse_body(std::string_view body);

// Values. Errors are usage, name the field's path and say what is expected.
tl::unexpected<Error> bad_value(const Json& value, std::string_view expected);
Result<double> number_in(const Json& value, double low, double high);
Result<int64_t> integer_in(const Json& value, int64_t low, int64_t high);
Result<bool> truth(const Json& value);
Result<std::string> text_of(const Json& value);

// `value` where it goes, or its error: return store(truth(json), draft.out.stream);
template <class T, class Target>
Result<void> store(Result<T> value, Target& target) {
    if (!value) return tl::unexpected(std::move(value).error());
    if constexpr (std::is_integral_v<T> && std::is_integral_v<Target>) {
        target = static_cast<Target>(*value);
    } else {
        target = std::move(*value);
    }
    return {};
}

}  // namespace sluice
