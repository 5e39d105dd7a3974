#include "tools/api/fields.h"

#include <algorithm>
#include <utility>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr size_t ignored_bytes_max = 400;  // a request with thousands of odd names

const Field* find(std::initializer_list<FieldTable> tables, std::string_view name) {
    for (const FieldTable& table : tables) {
        const auto at = std::find_if(table.begin(), table.end(),
                                     [&](const Field& field) { return field.name == name; });
        if (at != table.end()) return &*at;
    }
    return nullptr;
}

void note_ignored(std::string_view name, std::string& list) {
    if (list.size() > ignored_bytes_max) return;
    list += cat(list.empty() ? "" : ", ", printable(name));
    if (list.size() > ignored_bytes_max) list += ", ...";
}

Result<void> read_field(const Field& field, const Json& value, Draft& draft) {
    if (field.read != nullptr) return field.read(value, draft);
    return fail(Code::unsupported, cat(value.path(), ": ", field.reason));
}

// Json calls a value of the wrong type corrupt: in a request it is the client's mistake.
Error as_usage(Error error) {
    error.code = Code::usage;
    return error;
}

template <class T>
Result<T> as_usage(Result<T> value) {
    if (!value) return tl::unexpected(as_usage(std::move(value).error()));
    return value;
}

}  // namespace

Result<void> read_fields(const Json& body, std::initializer_list<FieldTable> tables, Draft& draft) {
    Result<void> result;
    body.each_member([&](std::string_view name, const Json& value) {
        const Field* field = find(tables, name);
        if (field == nullptr || field->use == Use::ignored) {
            note_ignored(name, draft.out.ignored);
        } else if (!value.is_null()) {
            result = read_field(*field, value, draft);
        }
        return result.has_value();
    });
    return result;
}

Result<Json> parse_body(std::string_view body) {
    auto json = Json::parse(body);
    if (!json) {
        return fail(Code::usage, cat("the request body is ", std::move(json).error().message));
    }
    if (!json->is_object()) return fail(Code::usage, "the request body is not a JSON object");
    return std::move(*json);
}

tl::unexpected<Error> bad_value(const Json& value, std::string_view expected) {
    return fail(Code::usage, cat(value.path(), ": expected ", expected));
}

Result<double> number_in(const Json& value, double low, double high) {
    auto number = as_usage(value.number());
    if (number && !(*number >= low && *number <= high)) {
        return bad_value(value,
                         formatted("a number from {:g} to {:g}, found {:g}", low, high, *number));
    }
    return number;
}

Result<int64_t> integer_in(const Json& value, int64_t low, int64_t high) {
    auto number = as_usage(value.integer());
    if (number && (*number < low || *number > high)) {
        return bad_value(value,
                         cat("a whole number from ", low, " to ", high, ", found ", *number));
    }
    return number;
}

Result<bool> truth(const Json& value) {
    return as_usage(value.boolean());
}

Result<std::string> text_of(const Json& value) {
    return as_usage(value.string());
}

}  // namespace sluice
