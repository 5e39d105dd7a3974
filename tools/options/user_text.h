// Text from the user: in a flag, a file, a pipe, a line of the chat.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

// An error about a file that a flag names: a wrong name is the flag's fault (usage); a file that
// cannot be read (io) is not.
Error named_file_error(Error error);

// usage, naming `where` and the offset of the first invalid byte. Nothing is replaced.
Result<void> check_utf8(std::string_view where, std::string_view text);

// Removes a byte order mark from the front, where some editors write one: it marks the file as
// UTF-8 and is not part of its text. Elsewhere the character stays.
void drop_byte_order_mark(std::string& text);

// "~/x" and "~name/x" with the folder in place of "~", where there is one: for paths that no shell
// has seen.
std::string home_expanded(const std::string& path);

// The paths that begin with `text`, folders with a slash behind them; hidden ones if asked for.
std::vector<std::string> paths_beginning(const std::string& text);

// Reads a UTF-8 text file of at most 64 MiB, without its byte order mark. Errors begin with `flag`
// and are as those of named_file_error().
Result<std::string> read_user_file(std::string_view flag, const std::string& path);

}  // namespace sluice
