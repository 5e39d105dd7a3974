// Recorded routes: what every token's router chose in every layer, for `sluice simulate`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
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

// Writes as it goes, flushed per token; a file cut short is readable up to its last whole token.
class RouteRecorder {
 public:
    static Result<std::unique_ptr<RouteRecorder>> create(const std::filesystem::path& path,
                                                         const RouteFileHeader& header);
    ~RouteRecorder();
    void step(const RouteStep& step);
    Result<void> token_done(bool sweep);  // sweep: part of a prompt

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

struct RecordedToken {
    bool sweep;
    std::vector<int32_t> chosen;   // [layers][top_k]
    std::vector<int32_t> guesses;  // [layers][top_k], of layer + 1; -1 where none
};
struct RouteFile {
    RouteFileHeader header;
    std::vector<RecordedToken> tokens;
};
Result<RouteFile> read_route_file(const std::filesystem::path& path);

}  // namespace sluice
