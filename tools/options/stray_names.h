// Names of settings that are none: what was meant by them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

// "did you mean \"temp\"?", "--json is a flag alone", or where the names are told: of a key in a
// file that is no setting.
std::string key_meant(std::string_view key);

// The one of `words` that `word` is most likely meant to be; empty: none is near.
std::string nearest_word(std::string_view word, std::span<const std::string> words);

// One line about the variables of `environment` ("NAME=value", ends with a null) that are called
// SLUICE_... in any case, are not empty and have no effect, the nearest setting behind each; empty
// if there are none. Those that the build and the tests use are no settings, and known.
std::string stray_variables(const char* const* environment);

}  // namespace sluice
