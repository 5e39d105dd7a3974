// Strict reading of tokenizer.json: anything unknown is refused, with its place in the file.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "io/error.h"
#include "io/json.h"

namespace sluice {

// An unsupported error: "pre_tokenizer.behavior: 'Removed' is not supported".
tl::unexpected<Error> unsupported_option(const Json& node, std::string_view what);
// Requires an object with no members but these.
Result<void> expect_members(const Json& node, std::initializer_list<std::string_view> names);
// Requires each of these members to be present and false: true, the default of some, would change
// token ids.
Result<void> expect_false(const Json& node, std::initializer_list<std::string_view> names);

}  // namespace sluice
