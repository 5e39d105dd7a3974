// Which Engram rows a token needs, computed from token ids alone (deepseek-v41.md section 3.8).
// 64-bit integers throughout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// raw id -> compressed id: tokens whose normalised texts are equal share one. unsupported, naming
// both numbers: the number of compressed ids is not the config's engram_compressed_vocab_size.
Result<std::vector<int32_t>> compressed_token_map(const Tokenizer& tokenizer,
                                                  const ModelConfig& config);

// `count` primes >= from, ascending.
std::vector<int64_t> primes_from(int64_t from, size_t count);

class EngramHash {
 public:
    // unsupported: a table whose number of rows is not the sum of its primes, or a map of another
    // vocabulary.
    static Result<EngramHash> create(const ModelConfig& config, std::vector<int32_t> token_map);

    // rows[i * columns + c] for ids[i]; `which` is an index into engram_layers. `history`: the raw
    // ids before ids[0], at least the last engram_ngram - 1 of them or all. Requires ids in the
    // vocabulary and rows.size() >= ids.size() * columns.
    void rows(size_t which, std::span<const int32_t> history, std::span<const int32_t> ids,
              std::span<uint64_t> rows) const;
    // The same from compressed ids, with -1 for an image position: published vectors have these.
    void rows_of_compressed(size_t which, std::span<const int32_t> history,
                            std::span<const int32_t> ids, std::span<uint64_t> rows) const;
    const std::vector<int64_t>& primes(size_t which) const { return primes_[which]; }
    const std::vector<uint64_t>& multipliers(size_t which) const { return multipliers_[which]; }
    const std::vector<int32_t>& token_map() const { return map_; }

 private:
    template <class CodeOf>
    void hash(size_t which, std::span<const int32_t> history, std::span<const int32_t> ids,
              std::span<uint64_t> rows, CodeOf code_of) const;

    int32_t heads_ = 0, pad_ = 0, image_token_ = -1;
    std::vector<int32_t> map_;
    std::vector<std::vector<int64_t>> primes_;
    std::vector<std::vector<uint64_t>> multipliers_;
};

}  // namespace sluice
