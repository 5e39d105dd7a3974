// Text that the user gives: in a flag, a file, a pipe, a line of the chat.
#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// Of a file that a flag names: that it is not there, or no such file, is the flag's fault (usage);
// that it cannot be read (io) is not.
Error named_file_error(Error error);

// A text file, at most 64 MiB. Errors begin with `flag` and are named_file_error()'s.
Result<std::string> read_user_file(std::string_view flag, const std::string& path);

}  // namespace sluice
