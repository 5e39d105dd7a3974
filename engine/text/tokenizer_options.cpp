#include "engine/text/tokenizer_options.h"

#include <algorithm>

#include "io/text.h"

namespace sluice {

tl::unexpected<Error> unsupported_option(const Json& node, std::string_view what) {
    return fail(Code::unsupported, cat(node.path(), ": ", what, " is not supported"));
}

Result<void> expect_members(const Json& node, std::initializer_list<std::string_view> names) {
    if (!node.is_object()) return fail(Code::corrupt, cat(node.path(), ": expected an object"));
    for (const std::string& key : node.keys()) {
        if (std::find(names.begin(), names.end(), key) == names.end())
            return unsupported_option(node, cat("member '", printable(key), "'"));
    }
    return {};
}

Result<void> expect_false(const Json& node, std::initializer_list<std::string_view> names) {
    for (std::string_view name : names) {
        const auto value = node[name].boolean();
        if (!value) return tl::unexpected(value.error());
        if (*value) return unsupported_option(node[name], "true");
    }
    return {};
}

}  // namespace sluice
