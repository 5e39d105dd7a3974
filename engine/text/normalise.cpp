#include "engine/text/normalise.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "engine/text/utf8.h"

namespace sluice {
namespace {

// Stands for a lone space while white space is stripped; afterwards every such character becomes a
// space, even one that was in the text.
constexpr char32_t lone_space = 0xe000;

// All of category M, so spacing and enclosing marks too, as Hugging Face's StripAccents has it.
bool is_mark(char32_t c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
           category == UTF8PROC_CATEGORY_ME;
}

bool is_white_space(char32_t c) {  // Unicode White_Space
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

// NFD of NFKC is NFKD: composing in between changes nothing.
std::vector<char32_t> decompose(std::string_view text) {
    std::vector<utf8proc_int32_t> buffer(text.size() * 4 + 32);
    const auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
    for (;;) {
        const auto needed =
            utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                               static_cast<utf8proc_ssize_t>(text.size()), buffer.data(),
                               static_cast<utf8proc_ssize_t>(buffer.size()), options);
        if (needed < 0) return {};
        const bool fits = static_cast<size_t>(needed) <= buffer.size();
        buffer.resize(static_cast<size_t>(needed));
        if (fits) return {buffer.begin(), buffer.end()};
    }
}

}  // namespace

std::string normalise_for_engram(std::string_view text) {
    std::vector<char32_t> kept;
    for (char32_t c : decompose(text)) {
        if (is_mark(c)) continue;
        // Always one character: U+0130, the only letter with a longer lowercase, is decomposed
        // here.
        c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
        const bool space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
        if (space && !kept.empty() && kept.back() == ' ') continue;
        kept.push_back(space ? U' ' : c);
    }
    if (kept.size() == 1 && kept[0] == ' ') kept[0] = lone_space;
    const auto solid = [](char32_t c) { return !is_white_space(c); };
    const auto begin = std::find_if(kept.begin(), kept.end(), solid);
    const auto end = std::find_if(kept.rbegin(), std::make_reverse_iterator(begin), solid).base();
    std::string out;
    for (auto at = begin; at != end; ++at) append_utf8(out, *at == lone_space ? U' ' : *at);
    return out;
}

}  // namespace sluice
