// RouteFile: what the routers chose for every token in every layer, recorded for `sluice simulate`.
//
// `--record-routes FILE` appends the tokens of each pass after it to FILE.XXXXXX beside FILE, which
// is renamed to FILE at the end of the run. While it records, the engine computes the guesses even
// with prefetch off.
//
// The file, all numbers little-endian:
//   8 bytes   "SLROUTE1"
//   4 x u32   layers (1..1024), experts (1..65534), top_k (1..experts, at most 256), length of the
//             model name (at most 4096)
//   u64       bytes of one expert
//   name      UTF-8, no terminator
//   a token   u8 flags (1 prompt, 2 last of its chunk, 4 with both: the next chunk is of the same
//             chunk group), 3 zero bytes, then u16 chosen [layers][top_k] and u16 guesses
//             [layers][top_k], 65535 where there is none
// All tokens have the same size. A file that was cut short ends with part of one, which is ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/predictor.h"
#include "io/error.h"

namespace sluice {

struct RouteFileHeader {
    int32_t layers;
    int32_t experts;
    int32_t top_k;
    uint64_t expert_bytes;
    std::string model;
};

// Writes each token at once, to a file beside `path` that gets its name in keep() or the
// destructor. If writing fails (io error of token_done() or keep()), no file is left.
class RouteRecorder {
 public:
    static Result<std::unique_ptr<RouteRecorder>> create(const std::filesystem::path& path,
                                                         const RouteFileHeader& header);
    ~RouteRecorder();
    // Ends the recording.
    Result<void> keep();
    // One layer of the current token; layers may come in any order. At most top_k ids of each list
    // are recorded.
    void step(const RouteStep& step);
    // `prompt`: part of a prompt. `chunk_end`: the last token of its forward pass; the replay needs
    // it because the tokens of one chunk ask for their experts in one demand. `group_continues`, at
    // the end of a prompt's chunk: the next chunk is of the same chunk group, see
    // ExpertCache::begin_chunk_group().
    Result<void> token_done(bool prompt, bool chunk_end = true, bool group_continues = false);

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct RecordedToken {
    bool prompt = false;
    bool chunk_end = true;
    bool group_continues = false;
    std::vector<int32_t> chosen;   // [layers][top_k]; -1 where a layer recorded none
    std::vector<int32_t> guesses;  // [layers][top_k], of layer + 1; -1 where none
};
struct RouteFile {
    RouteFileHeader header;
    std::vector<RecordedToken> tokens;
    bool cut = false;  // the file ends inside a token
};
Result<RouteFile> read_route_file(const std::filesystem::path& path);

}  // namespace sluice
