// The header of one safetensors file, fully validated before use.
//
// The file: u64 little-endian header length n, n bytes of JSON, then data. A tensor's data_offsets
// count from byte 8+n. No alignment is guaranteed. Several threads may read headers, each of its
// own file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/error.h"
#include "io/file.h"

namespace sluice {

enum class DType : uint8_t {
    f8_e4m3,
    f8_e8m0,
    i8,
    u8,
    bf16,
    f16,
    f32,
    f64,
    i16,
    i32,
    i64,
    u16,
    u32,
    u64,
    boolean,
    f8_e5m2
};
const char* dtype_name(DType dtype);  // "F8_E4M3"
uint32_t dtype_size(DType dtype);     // bytes

struct TensorEntry {
    std::string name;
    DType dtype;
    std::vector<uint64_t> shape;
    uint64_t offset;  // absolute, in the file
    uint64_t bytes;
};

struct SafetensorsHeader {
    std::vector<TensorEntry> tensors;  // ascending offset
    uint64_t data_begin;
};

// Accepts a header only if its length fits the file (and is <= 100 MB), it is a JSON object, every
// dtype is known, no name is used twice, begin <= end, bytes == dtype x shape (checked arithmetic),
// the tensors cover the data area without overlap or hole, and the last one ends exactly at the end
// of the file. Errors name the file; a git-lfs pointer, an HTML page, ZIP, GGUF, gzip or a file of
// zeros is named as what it is, with what to do.
Result<SafetensorsHeader> read_safetensors_header(const File& file);

}  // namespace sluice
