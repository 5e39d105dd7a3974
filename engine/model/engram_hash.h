// Which Engram rows a token needs: from ids alone (section 3.8). 64-bit integers throughout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"
#include "engine/text/tokenizer.h"
#include "io/error.h"

namespace sluice {

// raw id -> compressed id, computed from the tokenizer (NFKC, NFD, marks stripped, lowercase,
// spaces). The number of distinct keys must equal the config's engram_compressed_vocab_size, else
// unsupported: naming both numbers.
Result<std::vector<int32_t>> compressed_token_map(const Tokenizer& tokenizer,
                                                  const ModelConfig& config);

// `count` primes >= from, ascending.
std::vector<int64_t> primes_from(int64_t from, size_t count);
// numpy default_rng(seed).integers(0, bound, count). Requires bound > 2^32 (below, numpy draws 32
// bits at a time).
std::vector<uint64_t> numpy_integers(uint64_t seed, uint64_t bound, size_t count);

class EngramHash {
 public:
    // unsupported: a table whose rows are not the primes' sum, or a map of another vocabulary.
    static Result<EngramHash> create(const ModelConfig& config, std::vector<int32_t> token_map);

    // rows[i * columns + c] for ids[i] at position history.size() + i of layer index `which` (of
    // engram_layers). `history`: the raw ids before, at least the last engram_ngram - 1 of them
    // (all, at a sequence start). Requires ids of the vocabulary, rows.size() >= ids.size() *
    // columns.
    void rows(size_t which, std::span<const int32_t> history, std::span<const int32_t> ids,
              std::span<uint64_t> rows) const;
    // The same from compressed ids; -1 is an image position. For tests against published vectors.
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
