// Strictness for tokenizer.json: what is not known is refused with its path.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "io/error.h"
#include "io/json.h"

namespace sluice {

// unsupported: "pre_tokenizer.behavior: 'Removed' is not supported".
tl::unexpected<Error> unsupported_option(const Json& node, std::string_view what);
// The node is an object with members of these names only.
Result<void> expect_members(const Json& node, std::initializer_list<std::string_view> names);
// Each of these members is there and false: true, or left out, would change token ids.
Result<void> expect_false(const Json& node, std::initializer_list<std::string_view> names);

}  // namespace sluice
