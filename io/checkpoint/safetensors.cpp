#include "io/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string_view>
#include <tuple>

#include "io/checkpoint/file_kind.h"
#include "io/json_events.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t header_max = 100'000'000;
constexpr size_t rank_max = 64;
constexpr std::string_view metadata_key = "__metadata__";

struct DTypeInfo {
    DType dtype;
    const char* name;
    uint32_t bytes;
};
constexpr std::array dtypes{
    DTypeInfo{DType::f8_e4m3, "F8_E4M3", 1}, DTypeInfo{DType::f8_e8m0, "F8_E8M0", 1},
    DTypeInfo{DType::i8, "I8", 1},           DTypeInfo{DType::u8, "U8", 1},
    DTypeInfo{DType::bf16, "BF16", 2},       DTypeInfo{DType::f16, "F16", 2},
    DTypeInfo{DType::f32, "F32", 4},         DTypeInfo{DType::f64, "F64", 8},
    DTypeInfo{DType::i16, "I16", 2},         DTypeInfo{DType::i32, "I32", 4},
    DTypeInfo{DType::i64, "I64", 8},         DTypeInfo{DType::u16, "U16", 2},
    DTypeInfo{DType::u32, "U32", 4},         DTypeInfo{DType::u64, "U64", 8},
    DTypeInfo{DType::boolean, "BOOL", 1},    DTypeInfo{DType::f8_e5m2, "F8_E5M2", 1},
};

const DTypeInfo& info_of(DType dtype) {
    const DTypeInfo& info = dtypes[static_cast<size_t>(dtype)];
    assert(info.dtype == dtype);
    return info;
}

std::string in_quotes(std::string_view name) {
    return cat("\"", printable(name), "\"");
}

// Builds entries from the events of
//     {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
// and refuses documents of any other structure. Offsets are still relative to the data area here.
class HeaderEvents final : public JsonEvents {
 public:
    std::vector<TensorEntry> tensors;
    bool unsupported = false;  // what was refused is well formed

    std::string null() override { return unexpected("null"); }
    std::string boolean(bool) override { return unexpected("boolean"); }
    std::string negative(int64_t) override { return unexpected("negative number"); }
    std::string fraction(double) override {
        return unexpected("number that is not a 64-bit integer");
    }
    std::string whole(uint64_t value) override;
    std::string text(std::string_view value) override;
    std::string key(std::string_view name) override;
    std::string begin_object() override;
    std::string end_object() override;
    std::string begin_array() override;
    std::string end_array() override;

 private:
    enum class State { start, top, tensor, metadata, shape, offsets, done };
    enum Field { dtype = 1, shape = 2, offsets = 4, all_fields = 7 };

    std::string unexpected(std::string_view what) const {
        return cat(where(), "unexpected ", what);
    }
    std::string where() const {
        if (state_ == State::start || state_ == State::done) return "header: ";
        return name_.empty() ? "header: " : cat("tensor ", in_quotes(name_), ": ");
    }
    std::string take_dtype(std::string_view value);

    State state_ = State::start;
    std::string name_;      // of the current top-level member
    bool pending_ = false;  // its key was read, its value not yet
    bool had_metadata_ = false;
    uint32_t seen_ = 0;   // fields of this tensor so far
    uint32_t field_ = 0;  // the field whose value comes next
    uint32_t offset_count_ = 0;
    uint64_t offset_[2] = {};
};

std::string HeaderEvents::whole(uint64_t value) {
    TensorEntry* entry = tensors.empty() ? nullptr : &tensors.back();
    if (state_ == State::shape) {
        if (entry->shape.size() == rank_max) return cat(where(), "more than 64 dimensions");
        entry->shape.push_back(value);
        return "";
    }
    if (state_ == State::offsets) {
        if (offset_count_ == 2) return cat(where(), "more than two data_offsets");
        offset_[offset_count_++] = value;
        return "";
    }
    return unexpected("number");
}

std::string HeaderEvents::take_dtype(std::string_view value) {
    for (const DTypeInfo& info : dtypes) {
        if (value == info.name) {
            tensors.back().dtype = info.dtype;
            return "";
        }
    }
    unsupported = true;
    std::string known;
    for (const DTypeInfo& info : dtypes) known += cat(known.empty() ? "" : ", ", info.name);
    return cat(where(), "unknown dtype ", in_quotes(value), " (known: ", known,
               "); get the model in one of these formats");
}

std::string HeaderEvents::text(std::string_view value) {
    if (state_ == State::metadata) return "";
    if (state_ == State::tensor && field_ == dtype) {
        field_ = 0;
        return take_dtype(value);
    }
    return unexpected("text");
}

std::string HeaderEvents::key(std::string_view name) {
    if (state_ == State::top) {
        name_ = name;
        pending_ = true;
        if (name.empty()) return "header: a tensor without a name";
        if (name != metadata_key) return "";
        if (had_metadata_) return "header: __metadata__ appears twice";
        had_metadata_ = true;
        return "";
    }
    if (state_ == State::metadata) return "";
    field_ = name == "dtype"          ? dtype
             : name == "shape"        ? shape
             : name == "data_offsets" ? offsets
                                      : 0;
    if (field_ == 0) return cat(where(), "unknown field ", in_quotes(name));
    if (seen_ & field_) return cat(where(), printable(name), " appears twice");
    seen_ |= field_;
    return "";
}

std::string HeaderEvents::begin_object() {
    if (state_ == State::start) {
        state_ = State::top;
        return "";
    }
    if (state_ != State::top || !pending_) return unexpected("object");
    pending_ = false;
    if (name_ == metadata_key) {
        state_ = State::metadata;
        return "";
    }
    state_ = State::tensor;
    seen_ = field_ = offset_count_ = 0;
    tensors.push_back({name_, DType::u8, {}, 0, 0});
    return "";
}

std::string HeaderEvents::end_object() {
    if (state_ == State::top) {
        state_ = State::done;
        return "";
    }
    if (state_ == State::tensor) {
        if (seen_ != all_fields) {
            return cat(where(),
                       !(seen_ & dtype)   ? "dtype"
                       : !(seen_ & shape) ? "shape"
                                          : "data_offsets",
                       " is missing");
        }
        if (offset_[1] < offset_[0]) {
            return cat(where(), "data_offsets end (", offset_[1], ") before they begin (",
                       offset_[0], ")");
        }
        tensors.back().offset = offset_[0];
        tensors.back().bytes = offset_[1] - offset_[0];
    }
    state_ = State::top;
    name_.clear();
    return "";
}

std::string HeaderEvents::begin_array() {
    if (state_ != State::tensor || (field_ != shape && field_ != offsets)) {
        return unexpected("array");
    }
    state_ = field_ == shape ? State::shape : State::offsets;
    field_ = 0;
    return "";
}

std::string HeaderEvents::end_array() {
    if (state_ == State::offsets && offset_count_ != 2) {
        return cat(where(), "data_offsets must be two numbers");
    }
    state_ = State::tensor;
    return "";
}

// Requires bytes == dtype x shape, in arithmetic that cannot wrap.
Result<void> check_span(const TensorEntry& entry) {
    bool empty = false;
    for (const uint64_t extent : entry.shape) empty = empty || extent == 0;
    uint64_t want = empty ? 0 : dtype_size(entry.dtype);
    for (const uint64_t extent : entry.shape) {
        if (!empty && __builtin_mul_overflow(want, extent, &want)) {
            return fail(Code::corrupt, cat("tensor ", in_quotes(entry.name),
                                           ": its shape is larger than any file"));
        }
    }
    if (want == entry.bytes) return {};
    return fail(Code::corrupt,
                cat("tensor ", in_quotes(entry.name), ": ", dtype_name(entry.dtype),
                    " and its shape make ", want, " bytes, but its data_offsets ", entry.bytes));
}

Result<void> check_names(const std::vector<TensorEntry>& tensors) {
    std::vector<std::string_view> names;
    names.reserve(tensors.size());
    for (const TensorEntry& entry : tensors) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin == names.end()) return {};
    return fail(Code::corrupt, cat("tensor ", in_quotes(*twin), " is declared twice"));
}

// Requires of tensors sorted by offset: each begins where the one before it ends, the last one ends
// with the file.
Result<void> check_cover(const std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
    uint64_t end = 0;
    const TensorEntry* before = nullptr;
    for (const TensorEntry& entry : tensors) {
        if (entry.offset != end) {
            const std::string_view what =
                entry.offset < end ? " overlaps " : " leaves a hole after ";
            return fail(Code::corrupt,
                        cat("tensor ", in_quotes(entry.name), what,
                            before ? in_quotes(before->name) : "the header",
                            ": it begins at data byte ", entry.offset, ", expected ", end));
        }
        if (__builtin_add_overflow(end, entry.bytes, &end)) {
            return fail(Code::corrupt,
                        cat("tensor ", in_quotes(entry.name), " ends past any possible file"));
        }
        before = &entry;
    }
    if (end > data_bytes) {
        return fail(Code::corrupt, cat("the file is cut short: tensor ", in_quotes(before->name),
                                       " ends at data byte ", end, ", but the file has only ",
                                       data_bytes, "; ", end - data_bytes, " bytes are missing"));
    }
    if (end < data_bytes) {
        return fail(Code::corrupt,
                    cat("the file has ", data_bytes - end, " extra bytes after its last tensor"));
    }
    return {};
}

// Reads the length field and checks that the file can hold a header of that length.
Result<uint64_t> read_length(const File& file) {
    if (file.size() == 0) return fail(Code::corrupt, "the file is empty");
    if (file.size() < 8) {
        return fail(Code::corrupt, cat("the file has only ", file.size(),
                                       " bytes, too few for the header length"));
    }
    uint8_t field[8];
    if (auto read = file.read(0, field, sizeof field); !read) {
        return tl::unexpected(std::move(read).error());
    }
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | field[i];
    if (length > file.size() - 8) {
        return fail(Code::corrupt,
                    cat("the header should be ", length, " bytes long, but the file has only ",
                        file.size() - 8, " after the length field"));
    }
    if (length > header_max) {
        return fail(Code::corrupt, cat("the header should be ", length,
                                       " bytes long, but the format allows at most ", header_max));
    }
    if (length < 2) {
        return fail(Code::corrupt, cat("the header is ", length, " bytes long, too short for {}"));
    }
    return length;
}

Result<SafetensorsHeader> read_header(const File& file) {
    auto length = read_length(file);
    if (!length) return tl::unexpected(std::move(length).error());
    std::string text(*length, '\0');
    if (auto read = file.read(8, text.data(), *length); !read) {
        return tl::unexpected(std::move(read).error());
    }
    if (text[0] != '{') return fail(Code::corrupt, "the header is not a JSON object");
    HeaderEvents events;
    if (auto parsed = parse_json_events(text, events); !parsed) {
        if (events.unsupported) parsed.error().code = Code::unsupported;
        return tl::unexpected(std::move(parsed).error());
    }
    SafetensorsHeader header{std::move(events.tensors), 8 + *length};
    for (const TensorEntry& entry : header.tensors) {
        if (auto ok = check_span(entry); !ok) return tl::unexpected(std::move(ok).error());
    }
    // An empty tensor comes before its neighbour at the same offset.
    std::sort(header.tensors.begin(), header.tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) {
                  return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
              });
    if (auto ok = check_names(header.tensors); !ok) return tl::unexpected(std::move(ok).error());
    if (auto ok = check_cover(header.tensors, file.size() - header.data_begin); !ok) {
        return tl::unexpected(std::move(ok).error());
    }
    for (TensorEntry& entry : header.tensors) entry.offset += header.data_begin;
    return header;
}

// What a file that does not parse is instead, which explains more than the syntax error; or empty.
std::string actual_kind(const File& file) {
    char head[file_kind_bytes];
    const uint64_t bytes = std::min<uint64_t>(sizeof head, file.size());
    if (!file.read(0, head, bytes)) return "";
    // A length that fits four bytes, then a brace: a safetensors file, however damaged.
    const std::string_view high_length{"\0\0\0\0{", 5};
    if (bytes > 8 && std::string_view(head + 4, 5) == high_length) return "";
    return describe_file_kind({head, bytes}, file.size());
}

}  // namespace

const char* dtype_name(DType dtype) {
    return info_of(dtype).name;
}
uint32_t dtype_size(DType dtype) {
    return info_of(dtype).bytes;
}

Result<SafetensorsHeader> read_safetensors_header(const File& file) {
    auto header = read_header(file);
    if (header) return header;
    Error error = std::move(header).error();
    if (error.code == Code::io) return tl::unexpected(std::move(error));  // names the file
    if (error.code == Code::corrupt) {
        const std::string kind = actual_kind(file);
        if (!kind.empty()) error.message = cat("not a safetensors file but ", kind);
    }
    return within(printable(file.path().string()), std::move(error));
}

}  // namespace sluice
