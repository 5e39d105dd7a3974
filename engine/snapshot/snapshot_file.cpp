#include "engine/snapshot/snapshot_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "io/checksum.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little, "sections are copied as they lie");

constexpr std::string_view magic = "SLSNAPSH";
constexpr uint32_t format_version = 1;
constexpr uint64_t head_bytes = 16;  // of every version: magic, version, bytes of the header
constexpr uint64_t section_bytes = 4 + 4 + 3 * 8;
constexpr uint32_t text_max = 4096, sections_max = 65536;
constexpr uint64_t header_max = 256 + 3 * text_max + sections_max * section_bytes;
constexpr const char* feed_again = "; feed its tokens again";

void put_bytes(SnapshotBytes& out, const void* bytes, size_t count) {
    if (count == 0) return;
    out.resize(out.size() + count);
    std::memcpy(out.data() + out.size() - count, bytes, count);
}

template <class T>
void put(SnapshotBytes& out, T value) {
    put_bytes(out, &value, sizeof(value));
}

void put_text(SnapshotBytes& out, std::string_view text) {
    text = text.substr(0, text_max);
    put(out, static_cast<uint32_t>(text.size()));
    put_bytes(out, text.data(), text.size());
}

// Reads values one after another; past the end they are 0 and `ended` is set.
struct Cursor {
    std::span<const std::byte> left;
    bool ended = false;

    template <class T>
    T take() {
        T value{};
        if (left.size() < sizeof(T)) {
            ended = true;
            return value;
        }
        std::memcpy(&value, left.data(), sizeof(T));
        left = left.subspan(sizeof(T));
        return value;
    }
    std::string text() {
        const auto bytes = take<uint32_t>();
        if (bytes > text_max || bytes > left.size()) ended = true;
        if (ended) return {};
        std::string out(reinterpret_cast<const char*>(left.data()), bytes);
        left = left.subspan(bytes);
        return out;
    }
};

const char* kind_name(StateKind kind) {
    switch (kind) {
        case StateKind::tokens:
            return "token ids";
        case StateKind::window:
            return "window";
        case StateKind::compressed:
            return "compressed rows";
        case StateKind::keys:
            return "index keys";
        case StateKind::open_kv:
            return "open rows";
        case StateKind::open_gate:
            return "open gates";
        case StateKind::previous_kv:
            return "rows of the group before";
        case StateKind::previous_gate:
            return "gates of the group before";
        case StateKind::index_open_kv:
            return "open index rows";
        case StateKind::index_open_gate:
            return "open index gates";
        case StateKind::index_previous_kv:
            return "index rows of the group before";
        case StateKind::index_previous_gate:
            return "index gates of the group before";
    }
    return "unknown kind";
}

std::string section_name(const SnapshotHeader& header, size_t i) {
    const SnapshotSection& section = header.sections[i];
    const bool ids = section.kind == StateKind::tokens;
    return cat("section ", i + 1, " of ", header.sections.size(), " (", kind_name(section.kind),
               ids ? std::string() : cat(" of layer ", section.layer), ")");
}

tl::unexpected<Error> corrupt(const std::string& why) {
    return fail(Code::corrupt, why + feed_again);
}

tl::unexpected<Error> cut_short(uint64_t size, const std::string& where) {
    return corrupt(cat("it was cut short: it ends after ", size, " bytes, ", where));
}

void put_header(SnapshotBytes& out, const SnapshotHeader& header) {
    const SnapshotIdentity& id = header.identity;
    out.clear();
    put_bytes(out, magic.data(), magic.size());
    put(out, format_version);
    put(out, uint32_t{0});  // bytes of the header, below
    put(out, header.bytes);
    put(out, id.model);
    put(out, id.build);
    put_text(out, id.model_name);
    put_text(out, id.build_name);
    put_text(out, id.device);
    put(out, uint32_t{id.index_keys == IndexKeys::reference});
    put(out, static_cast<uint32_t>(header.position));
    put(out, header.published);
    put(out, static_cast<uint32_t>(header.sections.size()));
    for (const SnapshotSection& section : header.sections) {
        put(out, static_cast<uint32_t>(section.kind));
        put(out, section.layer);
        put(out, section.offset);
        put(out, section.bytes);
        put(out, section.checksum);
    }
    const auto bytes = static_cast<uint32_t>(out.size() + sizeof(uint64_t));
    std::memcpy(out.data() + magic.size() + sizeof(uint32_t), &bytes, sizeof(bytes));
    put(out, checksum(out.data(), out.size()));
}

// Everything between the first 16 bytes and the checksum, which was right.
Result<SnapshotHeader> parse_fields(std::span<const std::byte> fields, uint64_t header_bytes) {
    Cursor in{fields};
    SnapshotHeader header;
    SnapshotIdentity& id = header.identity;
    header.bytes = in.take<uint64_t>();
    id.model = in.take<uint64_t>();
    id.build = in.take<uint64_t>();
    id.model_name = in.text();
    id.build_name = in.text();
    id.device = in.text();
    const auto keys = in.take<uint32_t>();
    const auto position = in.take<uint32_t>();
    header.published = in.take<int32_t>();
    const auto count = in.take<uint32_t>();
    const bool sound = !in.ended && keys <= 1 && position <= INT32_MAX && count <= sections_max &&
                       in.left.size() == count * section_bytes;
    if (!sound) return corrupt("its header contradicts itself");
    id.index_keys = keys == 1 ? IndexKeys::reference : IndexKeys::own;
    header.position = static_cast<int32_t>(position);
    uint64_t at = header_bytes;
    for (uint32_t i = 0; i < count; ++i) {
        SnapshotSection section{};
        section.kind = static_cast<StateKind>(in.take<uint32_t>());
        section.layer = in.take<int32_t>();
        section.offset = in.take<uint64_t>();
        section.bytes = in.take<uint64_t>();
        section.checksum = in.take<uint64_t>();
        const bool inside = at <= header.bytes && section.bytes <= header.bytes - at;
        if (section.offset != at || !inside) return corrupt("its header contradicts itself");
        at += section.bytes;
        header.sections.push_back(section);
    }
    if (at != header.bytes) return corrupt("its header contradicts itself");
    return header;
}

// The header's bytes, from the first 16; 0 while those are not complete.
Result<uint64_t> header_length(std::span<const std::byte> begin, uint64_t size) {
    const size_t known = std::min(begin.size(), magic.size());
    if (known > 0 && std::memcmp(begin.data(), magic.data(), known) != 0) {
        return fail(Code::corrupt, cat("is no snapshot: it does not begin with ", magic));
    }
    if (size < head_bytes || begin.size() < head_bytes) return cut_short(size, "in its header");
    uint32_t length = 0;
    std::memcpy(&length, begin.data() + magic.size() + sizeof(uint32_t), sizeof(length));
    if (length < head_bytes + sizeof(uint64_t) || length > header_max) {
        return corrupt("its header is damaged");
    }
    if (size < length) return cut_short(size, "in its header");
    return length;
}

struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using Stream = std::unique_ptr<std::FILE, Closer>;

// Grows `bytes` to `size` with what follows in the file.
Result<void> read_to(std::FILE* file, uint64_t size, SnapshotBytes& bytes) {
    const size_t had = bytes.size();
    if (had == size) return {};
    bytes.resize(size);
    const size_t got = std::fread(bytes.data() + had, 1, size - had, file);
    if (got == size - had) return {};
    if (std::ferror(file)) return fail(Code::io, cat("read: ", errno_text(errno)));
    return cut_short(had + got, "while it was read");
}

Result<SnapshotBytes> read_all(const std::filesystem::path& path,
                               const std::function<Result<void>(const SnapshotHeader&)>& accept) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        return fail(Code::usage, "is not a regular file; name a snapshot");  // a pipe would block
    }
    const Stream file(std::fopen(path.c_str(), "rbe"));
    if (!file || ::fstat(::fileno(file.get()), &status) != 0) {
        const Code code = errno == ENOENT ? Code::not_found : Code::io;
        return fail(code, errno_text(errno));
    }
    const auto size = static_cast<uint64_t>(status.st_size);
    SnapshotBytes bytes;
    if (auto r = read_to(file.get(), std::min(size, head_bytes), bytes); !r) {
        return tl::unexpected(r.error());
    }
    const auto length = header_length(bytes, size);
    if (!length) return tl::unexpected(length.error());
    if (auto r = read_to(file.get(), *length, bytes); !r) return tl::unexpected(r.error());
    const auto header = read_snapshot_header(bytes, size);
    if (!header) return tl::unexpected(header.error());
    if (auto r = accept(*header); !r) return tl::unexpected(r.error());
    if (auto r = read_to(file.get(), size, bytes); !r) return tl::unexpected(r.error());
    return bytes;
}

}  // namespace

Result<SnapshotBytes> pack_snapshot(
    const SnapshotIdentity& identity, int32_t published, std::span<const int32_t> ids,
    std::span<const StatePart> parts,
    const std::function<Result<void>(size_t i, std::span<std::byte> to)>& fill) {
    SnapshotHeader header{identity, static_cast<int32_t>(ids.size()), published, {}, 0};
    header.sections.push_back({StateKind::tokens, 0, 0, ids.size_bytes(), 0});
    for (const StatePart& part : parts) {
        header.sections.push_back({part.kind, part.layer, 0, part.bytes, 0});
    }
    if (header.sections.size() > sections_max) {
        return fail(Code::unsupported, "the model has too many layers for a snapshot");
    }
    SnapshotBytes head;
    put_header(head, header);  // for its length
    header.bytes = head.size();
    for (SnapshotSection& section : header.sections) {
        section.offset = header.bytes;
        header.bytes += section.bytes;
    }
    SnapshotBytes bytes(header.bytes);
    for (size_t i = 0; i < header.sections.size(); ++i) {
        SnapshotSection& section = header.sections[i];
        const std::span<std::byte> to = std::span(bytes).subspan(section.offset, section.bytes);
        if (i == 0) {
            std::ranges::copy(std::as_bytes(ids), to.begin());
        } else if (auto filled = fill(i - 1, to); !filled) {
            return tl::unexpected(filled.error());
        }
        section.checksum = checksum(to.data(), to.size());
    }
    put_header(head, header);
    std::ranges::copy(head, bytes.begin());
    return bytes;
}

Result<SnapshotHeader> read_snapshot_header(std::span<const std::byte> begin, uint64_t size) {
    const auto length = header_length(begin, size);
    if (!length) return tl::unexpected(length.error());
    if (begin.size() < *length) return cut_short(begin.size(), "in its header");
    const uint64_t hashed = *length - sizeof(uint64_t);
    Cursor in{begin.subspan(magic.size())};
    const auto version = in.take<uint32_t>();
    if (Cursor{begin.subspan(hashed)}.take<uint64_t>() != checksum(begin.data(), hashed)) {
        return corrupt("its header is damaged");
    }
    if (version != format_version) {
        return fail(Code::unsupported,
                    cat("is of format ", version, ", and this build reads format ", format_version,
                        "; use the sluice that made it, or feed its tokens again"));
    }
    auto header = parse_fields(begin.first(hashed).subspan(head_bytes), *length);
    if (!header) return header;
    if (size > header->bytes) {
        return corrupt(cat("has ", size - header->bytes, " bytes after its end: it is damaged"));
    }
    for (size_t i = 0; i < header->sections.size(); ++i) {
        const SnapshotSection& section = header->sections[i];
        if (section.offset + section.bytes > size) {
            return cut_short(size, cat("in or before ", section_name(*header, i)));
        }
    }
    return header;
}

std::string identity_text(const SnapshotIdentity& id) {
    const std::string all = cat(checksum_text(id.model), " ", checksum_text(id.build), " ",
                                id.index_keys == IndexKeys::reference ? "reference" : "own", " ",
                                id.device);
    return checksum_text(checksum(all.data(), all.size()));
}

Result<void> check_identity(const SnapshotIdentity& made, const SnapshotIdentity& wanted) {
    const auto refuse = [](std::string_view what, std::string_view its, std::string_view ours) {
        return fail(Code::unsupported, cat("was made with ", what, " (", printable(its),
                                           "), here it is ", printable(ours), feed_again));
    };
    if (made.model != wanted.model) {
        const auto name = [](const SnapshotIdentity& id) {
            return cat(id.model_name, ", ", checksum_text(id.model));
        };
        return refuse("another model", name(made), name(wanted));
    }
    if (made.build != wanted.build) {
        const auto name = [](const SnapshotIdentity& id) {
            return cat(id.build_name, ", ", checksum_text(id.build));
        };
        return refuse("another build", name(made), name(wanted));
    }
    if (made.device != wanted.device) {
        return refuse("another kind of device", made.device, wanted.device);
    }
    if (made.index_keys != wanted.index_keys) {
        const auto name = [](IndexKeys keys) {
            return keys == IndexKeys::own ? "--index-keys own" : "--index-keys reference";
        };
        return refuse("other index keys", name(made.index_keys), name(wanted.index_keys));
    }
    return {};
}

Result<void> check_layout(const SnapshotHeader& header, std::span<const StatePart> parts) {
    const auto& sections = header.sections;
    bool same = sections.size() == parts.size() + 1 && sections[0].kind == StateKind::tokens &&
                sections[0].layer == 0 &&
                sections[0].bytes == static_cast<uint64_t>(header.position) * sizeof(int32_t);
    for (size_t i = 0; same && i < parts.size(); ++i) {
        const SnapshotSection& section = sections[i + 1];
        same = section.kind == parts[i].kind && section.layer == parts[i].layer &&
               section.bytes == parts[i].bytes;
    }
    if (!same) return corrupt("its sections are not those of its position");
    return {};
}

Result<void> check_sections(const SnapshotHeader& header, std::span<const std::byte> snapshot) {
    for (size_t i = 0; i < header.sections.size(); ++i) {
        const SnapshotSection& section = header.sections[i];
        const auto bytes = snapshot.subspan(section.offset, section.bytes);
        if (checksum(bytes.data(), bytes.size()) != section.checksum) {
            return corrupt(section_name(header, i) + " is damaged");
        }
    }
    return {};
}

Result<void> write_snapshot_file(const std::filesystem::path& path,
                                 std::span<const std::byte> snapshot) {
    auto target = output_file("snapshot", path, magic);
    if (!target) return tl::unexpected(target.error());
    const std::string_view text(reinterpret_cast<const char*>(snapshot.data()), snapshot.size());
    auto written = write_file_whole(*target, text);
    if (!written) return within("snapshot", written.error());
    return {};
}

Result<SnapshotBytes> read_snapshot_file(
    const std::filesystem::path& path,
    const std::function<Result<void>(const SnapshotHeader&)>& accept) {
    auto bytes = read_all(path, accept);
    if (!bytes) return within(cat("snapshot ", printable(path.native())), bytes.error());
    return bytes;
}

}  // namespace sluice
