// Reads the string constants of a Python file without running it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"

namespace sluice {

struct PythonConstant {
    std::string name;
    size_t line;          // of its last assignment, from 1
    std::string text;     // UTF-8
    std::string problem;  // not empty: why the text cannot be used
};

// Assignments at module level (no indentation), with or without an annotation, of string literals:
//
//     NAME = "one"
//     NAME: str = """triple"""  r'raw'
//     NAME = (
//         "several "  # and comments
//         "parts" + EARLIER_NAME
//     )
//
// The value begins with a literal; `+` with literals and earlier names of this list may follow.
// A dict of such values is read too, if all of its keys are words:
//
//     NAME = {"key": "one", "other-key": EARLIER_NAME + "more", "third": None}
//
// Each entry is a constant with the name that python_entry() gives; None is an empty text.
//
// Everything else is passed over; a name whose last assignment at module level was passed over is
// not in the list. An escape that is not supported (\N{...}, lone surrogates) or a text of more
// than 256 KiB becomes the problem of its constant.
//
// corrupt, naming the line: no valid UTF-8, a zero byte, a literal or bracket that does not end,
// more than 8 MiB of text in all. Time is linear in the source and in these texts.
Result<std::vector<PythonConstant>> read_python_constants(std::string_view source);

// The name of a dict's entry: NAME["key"].
std::string python_entry(std::string_view dict, std::string_view key);

// What a plain literal with these `characters` between its quotes stands for.
Result<std::string> python_unescape(std::string_view characters);

}  // namespace sluice
