#include "tools/terminal/flag_origin.h"

#include <cctype>
#include <string_view>

#include "io/text.h"

namespace sluice {

namespace {

bool continues_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '/';
}

bool names(std::string_view text, std::string_view flag) {
    for (size_t at = text.find(flag); at != text.npos; at = text.find(flag, at + 1)) {
        const size_t end = at + flag.size();
        const bool begins = at == 0 || !continues_name(text[at - 1]);
        if (begins && (end == text.size() || !continues_name(text[end]))) return true;
    }
    return false;
}

}  // namespace

std::string with_origins(std::string message, std::span<const FlagOrigin> origins) {
    std::string added;
    for (const FlagOrigin& origin : origins) {
        if (message.find(origin.source) != message.npos) continue;
        for (const std::string& flag : origin.flags) {
            if (!names(message, flag)) continue;
            added += cat(added.empty() ? " (" : ", ", flag, " is from ", origin.source);
            break;
        }
    }
    return added.empty() ? message : cat(message, added, ")");
}

}  // namespace sluice
