// Numbers of things in messages: "1 token", "2 tokens".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

inline std::string counted(uint64_t count, std::string_view thing) {
    std::string out = std::to_string(count);
    out += ' ';
    out += thing;
    if (count != 1) out += 's';
    return out;
}

}  // namespace sluice
