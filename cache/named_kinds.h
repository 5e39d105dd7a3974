// Classes that a user picks by name: a table of names and factories, the only place with the names.
//
//     constexpr NamedKind<Policy, PolicyOptions> kinds[] = {{"lru", make_kind<Lru>}, ...};
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/error.h"
#include "io/text.h"

namespace sluice {

template <class Base, class Options>
struct NamedKind {
    const char* name;
    std::unique_ptr<Base> (*make)(const Options& options);
};

template <class Kind, class Base, class Options>
std::unique_ptr<Base> make_kind(const Options& options) {
    return std::make_unique<Kind>(options);
}

// "lru, lfu, slru", for texts.
inline std::string comma_list(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += cat(list.empty() ? "" : ", ", name);
    return list;
}

template <class Table>
std::vector<std::string> names_of(const Table& kinds) {
    std::vector<std::string> names;
    for (const auto& kind : kinds) names.emplace_back(kind.name);
    return names;
}

// An unknown name is a usage error that lists the names. `what`: "cache policy".
template <class Base, class Options, size_t count>
Result<std::unique_ptr<Base>> make_named(const NamedKind<Base, Options> (&kinds)[count],
                                         std::string_view what, std::string_view name,
                                         const Options& options) {
    for (const auto& kind : kinds) {
        if (name == kind.name) return kind.make(options);
    }
    return fail(Code::usage, cat("unknown ", what, " '", printable(name),
                                 "'; known: ", comma_list(names_of(kinds))));
}

}  // namespace sluice
