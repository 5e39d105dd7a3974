#include "engine/model/config_fields.h"

#include <cmath>
#include <limits>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

static std::string number_text(double value) {
    return formatted("{:g}", value);
}

ConfigFields::ConfigFields(Json object, std::string where)
    : object_(std::move(object)), where_(std::move(where)) {}

Json ConfigFields::get(std::string_view name) {
    asked_.emplace(name);
    return object_[name];
}

void ConfigFields::take(const Error& error) {
    if (!error_) error_ = error;
}

void ConfigFields::problem(Code code, std::string_view name, const std::string& text) {
    take({code, cat(where_, name, ": ", text)});
}

bool ConfigFields::has(std::string_view name) {
    return !get(name).is_null();
}

int32_t ConfigFields::integer(std::string_view name, int64_t low, int64_t high) {
    const Json value = get(name);
    if (value.is_null()) {
        problem(Code::corrupt, name, "is missing");
        return static_cast<int32_t>(low);
    }
    Result<int64_t> number = value.integer();
    if (!number) {
        take(number.error());
        return static_cast<int32_t>(low);
    }
    if (*number < low || *number > high) {
        problem(Code::unsupported, name, cat(*number, " is outside ", low, " to ", high));
        return static_cast<int32_t>(low);
    }
    return static_cast<int32_t>(*number);
}

int32_t ConfigFields::integer_or(std::string_view name, int64_t low, int64_t high,
                                 int32_t otherwise) {
    return has(name) ? integer(name, low, high) : otherwise;
}

double ConfigFields::number(std::string_view name, double low, double high) {
    const Json value = get(name);
    if (value.is_null()) {
        problem(Code::corrupt, name, "is missing");
        return low;
    }
    Result<double> number = value.number();
    if (!number) {
        take(number.error());
        return low;
    }
    if (!(*number >= low && *number <= high)) {
        problem(
            Code::unsupported, name,
            cat(number_text(*number), " is outside ", number_text(low), " to ", number_text(high)));
        return low;
    }
    return *number;
}

std::vector<int64_t> ConfigFields::integers(std::string_view name, int64_t low, int64_t high) {
    const Json value = get(name);
    if (value.is_null()) {
        problem(Code::corrupt, name, "is missing");
        return {};
    }
    Result<std::vector<int64_t>> list = value.integers();
    if (!list) {
        take(list.error());
        return {};
    }
    for (int64_t entry : *list) {
        if (entry < low || entry > high) {
            problem(Code::unsupported, name, cat(entry, " is outside ", low, " to ", high));
            return {};
        }
    }
    return *list;
}

std::vector<int32_t> ConfigFields::integers32(std::string_view name, int32_t low, int32_t high) {
    const std::vector<int64_t> wide = integers(name, low, high);
    return {wide.begin(), wide.end()};
}

std::vector<int32_t> ConfigFields::one_or_more(std::string_view name, int32_t low, int32_t high) {
    if (get(name).is_array()) return integers32(name, low, high);
    return {integer(name, low, high)};
}

ConfigFields ConfigFields::object(std::string_view name) {
    const Json value = get(name);
    if (value.is_null()) problem(Code::corrupt, name, "is missing");
    if (!value.is_null() && !value.is_object()) {
        problem(Code::corrupt, name, "expected an object");
    }
    return ConfigFields(value.is_object() ? value : Json(), cat(where_, name, "."));
}

void ConfigFields::expect(std::string_view name, std::string_view only) {
    const Json value = get(name);
    if (value.is_null()) return problem(Code::corrupt, name, "is missing");
    Result<std::string> text = value.string();
    if (!text) return take(text.error());
    if (*text != only) {
        problem(Code::unsupported, name,
                cat("\"", printable(*text), "\" is not supported; only \"", only, "\" is"));
    }
}

void ConfigFields::expect(std::string_view name, int64_t only) {
    const Json value = get(name);
    if (value.is_null()) return problem(Code::corrupt, name, "is missing");
    Result<int64_t> number = value.integer();
    if (!number) return take(number.error());
    if (*number != only) {
        problem(Code::unsupported, name, cat(*number, " is not supported; only ", only, " is"));
    }
}

void ConfigFields::expect(std::string_view name, bool only, bool optional) {
    const Json value = get(name);
    if (value.is_null() && optional) return;
    if (value.is_null()) return problem(Code::corrupt, name, "is missing");
    Result<bool> flag = value.boolean();
    if (!flag) return take(flag.error());
    if (*flag != only) {
        problem(Code::unsupported, name,
                cat(*flag ? "true" : "false", " is not supported; only ", only ? "true" : "false",
                    " is"));
    }
}

void ConfigFields::expect(std::string_view name, const std::vector<int64_t>& only) {
    const std::vector<int64_t> list =
        integers(name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    if (list == only || error_) return;
    const auto text = [](const std::vector<int64_t>& values) {
        std::string out = "[";
        for (int64_t value : values) out += cat(out.size() > 1 ? ", " : "", value);
        return out + "]";
    };
    problem(Code::unsupported, name,
            cat(text(list), " is not supported; only ", text(only), " is"));
}

void ConfigFields::without_effect(std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) asked_.emplace(name);
}

Result<void> ConfigFields::finish() {
    if (error_) return tl::unexpected(*error_);
    for (const std::string& key : object_.keys()) {
        if (asked_.contains(key)) continue;
        return fail(Code::unsupported,
                    cat(where_, printable(key), ": unknown field, which may change the results"));
    }
    return {};
}

}  // namespace sluice
