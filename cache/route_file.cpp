#include "cache/route_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "io/output_file.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr char magic[8] = {'S', 'L', 'R', 'O', 'U', 'T', 'E', '1'};
constexpr size_t header_bytes = 8 + 4 * 4 + 8;
constexpr size_t token_head_bytes = 4;
constexpr uint32_t layers_max = 1024, experts_max = 65534, top_k_max = 256, name_max = 4096;
constexpr const char* flag = "--record-routes";
constexpr uint16_t no_expert = 65535;
constexpr uint8_t flag_prompt = 1, flag_chunk_end = 2, flag_group_continues = 4;

struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
};
using Stream = std::unique_ptr<std::FILE, Closer>;

template <class T>
void put(std::vector<uint8_t>& out, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
        out.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    }
}

template <class T>
T get(const uint8_t* at) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{at[i]} << (8 * i);
    return static_cast<T>(value);
}

bool in_range(uint32_t layers, uint32_t experts, uint32_t top_k, uint64_t name_bytes) {
    return layers >= 1 && layers <= layers_max && experts >= 1 && experts <= experts_max &&
           top_k >= 1 && top_k <= std::min(experts, top_k_max) && name_bytes <= name_max;
}

size_t ids_of(const RouteFileHeader& header) {
    return static_cast<size_t>(header.layers) * static_cast<size_t>(header.top_k);
}

tl::unexpected<Error> io_error(const std::filesystem::path& path, const char* what, int number) {
    return fail(Code::io, cat("route file ", printable(path.string()), ": ", what, ": ",
                              std::strerror(number)));
}

tl::unexpected<Error> corrupt(const std::filesystem::path& path, const std::string& why) {
    return fail(Code::corrupt, cat("route file ", printable(path.string()), ": ", why,
                                   "; record it again with --record-routes"));
}

}  // namespace

// ---- writing -----------------------------------------------------------------------------------

struct RouteRecorder::Impl {
    std::filesystem::path path;
    GrowingFile file;
    RouteFileHeader header;
    std::vector<uint8_t> record;  // the token so far
    bool wrong = false;           // a layer or expert that the model does not have

    void clear() {
        record.assign(token_head_bytes + 2 * ids_of(header) * sizeof(uint16_t), 0xff);
        std::fill_n(record.begin(), token_head_bytes, uint8_t{0});
        wrong = false;
    }
    void fill(size_t first, std::span<const int32_t> ids) {
        const size_t count = std::min(ids.size(), static_cast<size_t>(header.top_k));
        for (size_t i = 0; i < count; ++i) {
            if (ids[i] < 0 || ids[i] >= header.experts) {
                wrong = true;
                return;
            }
            uint8_t* at = record.data() + token_head_bytes + (first + i) * sizeof(uint16_t);
            at[0] = static_cast<uint8_t>(ids[i] & 0xff);
            at[1] = static_cast<uint8_t>(ids[i] >> 8);
        }
    }
    Result<void> write(const std::vector<uint8_t>& bytes) {
        return named(file.append({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    }
    static Result<void> named(Result<void> done) {
        if (done) return done;
        return fail(done.error().code, cat(flag, " ", done.error().message));
    }
};

Result<std::unique_ptr<RouteRecorder>> RouteRecorder::create(const std::filesystem::path& path,
                                                             const RouteFileHeader& header) {
    const auto layers = static_cast<uint32_t>(header.layers);
    const auto experts = static_cast<uint32_t>(header.experts);
    const auto top_k = static_cast<uint32_t>(header.top_k);
    if (!in_range(layers, experts, top_k, header.model.size())) {
        return fail(Code::unsupported,
                    cat("route file: a model of ", header.layers, " layers, ", header.experts,
                        " experts and top ", header.top_k, " cannot be recorded"));
    }
    auto target = output_file(flag, path, {magic, sizeof(magic)});
    if (!target) return tl::unexpected(std::move(target).error());
    auto file = GrowingFile::create(*target, 0644);
    if (!file) return tl::unexpected(Impl::named(tl::unexpected(file.error())).error());
    auto recorder = std::unique_ptr<RouteRecorder>(new RouteRecorder);
    recorder->impl_ = std::make_unique<Impl>(Impl{path, std::move(*file), header, {}, false});
    std::vector<uint8_t> bytes(magic, magic + sizeof(magic));
    put(bytes, layers);
    put(bytes, experts);
    put(bytes, top_k);
    put(bytes, static_cast<uint32_t>(header.model.size()));
    put(bytes, header.expert_bytes);
    bytes.insert(bytes.end(), header.model.begin(), header.model.end());
    recorder->impl_->clear();
    if (auto written = recorder->impl_->write(bytes); !written) {
        return tl::unexpected<Error>(written.error());
    }
    return recorder;
}

// After an answer that ended early, the tokens until then are complete and worth keeping.
RouteRecorder::~RouteRecorder() {
    if (impl_) (void)keep();
}

Result<void> RouteRecorder::keep() {
    return Impl::named(impl_->file.keep());
}

void RouteRecorder::step(const RouteStep& step) {
    Impl& impl = *impl_;
    if (step.layer < 0 || step.layer >= impl.header.layers) {
        impl.wrong = true;
        return;
    }
    const auto first = static_cast<size_t>(step.layer) * static_cast<size_t>(impl.header.top_k);
    impl.fill(first, step.chosen);
    impl.fill(ids_of(impl.header) + first, step.next_guesses);
}

Result<void> RouteRecorder::token_done(bool prompt, bool chunk_end, bool group_continues) {
    Impl& impl = *impl_;
    impl.record[0] =
        static_cast<uint8_t>((prompt ? flag_prompt : 0) | (chunk_end ? flag_chunk_end : 0) |
                             (group_continues ? flag_group_continues : 0));
    const bool wrong = impl.wrong;
    auto written = wrong ? Result<void>() : impl.write(impl.record);
    impl.clear();
    if (wrong)
        return fail(Code::usage, "route file: a layer or expert that this model does not have");
    return written;
}

// ---- reading -----------------------------------------------------------------------------------

namespace {

Result<RouteFileHeader> read_header(const std::filesystem::path& path, std::FILE* file) {
    std::array<uint8_t, header_bytes> bytes;
    if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size() ||
        std::memcmp(bytes.data(), magic, sizeof(magic)) != 0) {
        return corrupt(path, "not a route file: it does not begin with SLROUTE1");
    }
    const auto layers = get<uint32_t>(&bytes[8]), experts = get<uint32_t>(&bytes[12]);
    const auto top_k = get<uint32_t>(&bytes[16]), name = get<uint32_t>(&bytes[20]);
    if (!in_range(layers, experts, top_k, name)) {
        return corrupt(path,
                       cat("its header has values out of range (", layers, " layers, ", experts,
                           " experts, top ", top_k, ", a name of ", name, " bytes)"));
    }
    RouteFileHeader header{static_cast<int32_t>(layers), static_cast<int32_t>(experts),
                           static_cast<int32_t>(top_k), get<uint64_t>(&bytes[24]),
                           std::string(name, '\0')};
    if (std::fread(header.model.data(), 1, name, file) != name) {
        return corrupt(path, "the file ends inside its header");
    }
    return header;
}

// One list of a layer: ids in range and distinct, then only gaps.
bool read_ids(const uint8_t* at, const RouteFileHeader& header, std::vector<int32_t>& out) {
    const auto top_k = static_cast<size_t>(header.top_k);
    const size_t first = out.size();
    for (size_t i = 0; i < top_k; ++i) {
        const auto id = get<uint16_t>(at + i * sizeof(uint16_t));
        const int32_t expert = id == no_expert ? -1 : id;
        if (expert >= header.experts) return false;
        const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
        if (expert >= 0 && i > 0 && out.back() < 0) return false;
        if (expert >= 0 && std::find(begin, out.end(), expert) != out.end()) return false;
        out.push_back(expert);
    }
    return true;
}

Result<RecordedToken> read_token(const std::filesystem::path& path, const RouteFileHeader& header,
                                 const std::vector<uint8_t>& record, size_t number) {
    const uint8_t flags = record[0];
    constexpr uint8_t both = flag_prompt | flag_chunk_end;
    const bool group_continues = (flags & flag_group_continues) != 0;
    if ((flags & ~(both | flag_group_continues)) != 0 ||
        (group_continues && (flags & both) != both) || record[1] || record[2] || record[3]) {
        return corrupt(path, cat("token ", number, " has invalid flags"));
    }
    RecordedToken token;
    token.prompt = (flags & flag_prompt) != 0;
    token.chunk_end = (flags & flag_chunk_end) != 0;
    token.group_continues = group_continues;
    token.chosen.reserve(ids_of(header));
    token.guesses.reserve(ids_of(header));
    const size_t layer_bytes = static_cast<size_t>(header.top_k) * sizeof(uint16_t);
    const uint8_t* at = record.data() + token_head_bytes;
    for (int32_t list = 0; list < 2 * header.layers; ++list, at += layer_bytes) {
        const bool chosen = list < header.layers;
        if (!read_ids(at, header, chosen ? token.chosen : token.guesses)) {
            return corrupt(path, cat("token ", number, ", layer ", list % header.layers,
                                     ": an expert is out of range or repeated"));
        }
    }
    return token;
}

}  // namespace

Result<RouteFile> read_route_file(const std::filesystem::path& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        return fail(Code::usage, cat("route file ", printable(path.string()),
                                     ": not a regular file"));  // a pipe would block
    }
    Stream file(std::fopen(path.c_str(), "rb"));
    if (!file) {
        const Code code = errno == ENOENT ? Code::not_found : Code::io;
        return fail(code, cat("route file ", printable(path.string()), ": ", std::strerror(errno)));
    }
    auto header = read_header(path, file.get());
    if (!header) return tl::unexpected<Error>(header.error());
    RouteFile routes{std::move(*header), {}, false};
    std::vector<uint8_t> record(token_head_bytes + 2 * ids_of(routes.header) * sizeof(uint16_t));
    size_t got;
    while ((got = std::fread(record.data(), 1, record.size(), file.get())) == record.size()) {
        auto token = read_token(path, routes.header, record, routes.tokens.size());
        if (!token) return tl::unexpected<Error>(token.error());
        routes.tokens.push_back(std::move(*token));
    }
    if (std::ferror(file.get())) return io_error(path, "read", errno);
    routes.cut = got > 0;
    return routes;
}

}  // namespace sluice
