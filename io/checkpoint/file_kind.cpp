#include "io/checkpoint/file_kind.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "io/text.h"

namespace sluice {
namespace {

struct Magic {
    std::string_view bytes;
    std::string_view what;
};

using std::string_view_literals::operator""sv;

constexpr std::array magics{
    Magic{"PK\x03\x04"sv, "a ZIP archive (or a PyTorch .bin); a safetensors file is needed"},
    Magic{"GGUF"sv, "a GGUF file; the original safetensors checkpoint is needed"},
    Magic{"\x1f\x8b"sv, "gzip data; unpack it first"},
    Magic{"\x28\xb5\x2f\xfd"sv, "zstd data; unpack it first"},
    Magic{"\xfd\x37zXZ\0"sv, "xz data; unpack it first"},
    Magic{"\x89HDF\r\n"sv, "an HDF5 file; a safetensors file is needed"},
};

constexpr std::string_view lfs_start = "version https://git-lfs";

std::string describe_pointer(std::string_view head) {
    uint64_t size = 0;
    const size_t at = head.find("\nsize ");
    const bool known =
        at != head.npos &&
        std::from_chars(head.data() + at + 6, head.data() + head.size(), size).ec == std::errc();
    return cat("a git-lfs pointer", known ? cat(" for a file of ", size_text(size)) : "",
               ", not the file itself; run `git lfs pull` in that folder");
}

bool is_html(std::string_view head) {
    std::string start;
    for (const char c : head) {
        if (start.empty() && (c == ' ' || c == '\n' || c == '\r' || c == '\t')) continue;
        start += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
        if (start.size() == 9) break;
    }
    return start.starts_with("<!doctype") || start.starts_with("<html") ||
           start.starts_with("<?xml") || start.starts_with("<head");
}

}  // namespace

std::string describe_file_kind(std::string_view head, uint64_t size) {
    head = head.substr(0, std::min<uint64_t>(file_kind_bytes, size));
    if (head.empty()) return "";
    if (head.starts_with(lfs_start)) return describe_pointer(head);
    if (is_html(head)) {
        return "an HTML page (a login or error page saved under this name)";
    }
    for (const Magic& magic : magics) {
        if (head.starts_with(magic.bytes)) return std::string(magic.what);
    }
    if (head.starts_with("{")) {
        return "JSON text (perhaps a server's error reply), not safetensors";
    }
    if (std::all_of(head.begin(), head.end(), [](char c) { return c == 0; })) {
        return "filled with zeros (space was reserved but never written)";
    }
    return "";
}

}  // namespace sluice
