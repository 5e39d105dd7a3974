// Reads one object of config.json field by field, and so knows which fields were never read. Only
// the first problem is kept; reads after it return harmless values.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "io/json.h"

namespace sluice {

class ConfigFields {
 public:
    // `where` goes before field names in errors: "text_config." or "".
    ConfigFields(Json object, std::string where);

    bool has(std::string_view name);  // is present and not null; counts as asked for
    int32_t integer(std::string_view name, int64_t low, int64_t high);
    int32_t integer_or(std::string_view name, int64_t low, int64_t high, int32_t otherwise);
    double number(std::string_view name, double low, double high);
    std::vector<int64_t> integers(std::string_view name, int64_t low, int64_t high);
    std::vector<int32_t> integers32(std::string_view name, int32_t low, int32_t high);
    // Accepts a number or a list of numbers.
    std::vector<int32_t> one_or_more(std::string_view name, int32_t low, int32_t high);
    ConfigFields object(std::string_view name);  // refuses anything but an object

    // `only` is the only value supported; `optional` fields may be missing.
    void expect(std::string_view name, std::string_view only);
    void expect(std::string_view name, const char* only) { expect(name, std::string_view(only)); }
    void expect(std::string_view name, int64_t only);
    void expect(std::string_view name, bool only, bool optional = false);
    void expect(std::string_view name, const std::vector<int64_t>& only);

    void without_effect(std::initializer_list<std::string_view> names);

    void problem(Code code, std::string_view name, const std::string& text);
    bool failed() const { return error_.has_value(); }
    // The first problem, or else the first field that was never asked for.
    Result<void> finish();

 private:
    Json get(std::string_view name);
    void take(const Error& error);

    Json object_;
    std::string where_;
    std::set<std::string, std::less<>> asked_;
    std::optional<Error> error_;
};

}  // namespace sluice
