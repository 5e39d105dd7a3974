// Checks what a message says.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline bool mentions(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

// Checks that the message is one line and has all of `parts`.
inline void says(const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
        CHECK_MESSAGE(mentions(message, part), "expected \"", part, "\" in \"", message, "\"");
    }
    CHECK(!mentions(message, "\n"));
}

}  // namespace sluice
