// Text that the user gives: in a flag, a file, a pipe, a line of the chat.
#pragma once

#include <string>
#include <string_view>

#include "io/error.h"

namespace sluice {

// Of a file that a flag names: that it is not there, or no such file, is the flag's fault (usage);
// that it cannot be read (io) is not.
Error named_file_error(Error error);

// usage, naming `where` and the offset of the first byte that is none: nothing is put in its place.
Result<void> check_utf8(std::string_view where, std::string_view text);

// Takes a byte order mark away from the front, which editors write there: it says that a file is
// UTF-8 and is no part of its text. Elsewhere the same character stays.
void drop_byte_order_mark(std::string& text);

// A text file in UTF-8, at most 64 MiB, without a byte order mark. Errors begin with `flag` and are
// named_file_error()'s.
Result<std::string> read_user_file(std::string_view flag, const std::string& path);

}  // namespace sluice
