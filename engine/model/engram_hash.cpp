#include "engine/model/engram_hash.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/model/numpy_random.h"
#include "engine/text/normalise.h"
#include "engine/text/utf8.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr int32_t image = -1;  // code of an image position

// False for a part of a character and for U+FFFD itself: these are not normalised.
bool decodes_to_text(std::string_view bytes) {
    return utf8_prefix(bytes) == bytes.size() &&
           bytes.find("\xef\xbf\xbd") == std::string_view::npos;
}

bool is_prime(int64_t n) {
    if (n < 4) return n > 1;
    if (n % 2 == 0) return false;
    for (int64_t d = 3; d <= n / d; d += 2) {
        if (n % d == 0) return false;
    }
    return true;
}

}  // namespace

Result<std::vector<int32_t>> compressed_token_map(const Tokenizer& tokenizer,
                                                  const ModelConfig& config) {
    std::unordered_map<std::string, int32_t> numbers;
    std::vector<int32_t> map;
    for (int32_t id = 0; id < config.vocab; ++id) {
        const std::string_view bytes = tokenizer.bytes(id);
        std::string key;
        if (decodes_to_text(bytes)) {
            key = normalise_for_engram(bytes);
            if (key.empty()) key = bytes;
        } else {
            key = tokenizer.vocabulary_string(id);
        }
        const auto next = static_cast<int32_t>(numbers.size());
        map.push_back(numbers.try_emplace(std::move(key), next).first->second);
    }
    if (numbers.size() != static_cast<size_t>(config.engram_compressed_vocab))
        return fail(Code::unsupported,
                    cat("engram_compressed_vocab_size is ", config.engram_compressed_vocab,
                        ", but tokenizer.json gives ", numbers.size(),
                        "; the two files do not belong together"));
    return map;
}

std::vector<int64_t> primes_from(int64_t from, size_t count) {
    std::vector<int64_t> primes;
    for (int64_t n = std::max<int64_t>(from, 2); primes.size() < count; ++n) {
        if (is_prime(n)) primes.push_back(n);
    }
    return primes;
}

Result<EngramHash> EngramHash::create(const ModelConfig& config, std::vector<int32_t> token_map) {
    const auto vocab = static_cast<size_t>(std::max(config.vocab, 0));
    const auto pad = static_cast<size_t>(config.engram_pad);
    if (token_map.size() != vocab || config.engram_pad < 0 || pad >= vocab)
        return fail(Code::unsupported,
                    cat("engram_pad_token_id ", config.engram_pad, " or a token map of ",
                        token_map.size(), " does not fit a vocabulary of ", config.vocab));
    if (config.engram_ngram < 2 || config.engram_heads < 1 || config.engram_compressed_vocab < 1 ||
        config.engram_compressed_vocab > 1 << 29)
        return fail(Code::unsupported,
                    cat("engram_max_ngram_size ", config.engram_ngram, ", engram_n_heads ",
                        config.engram_heads, ", engram_compressed_vocab_size ",
                        config.engram_compressed_vocab,
                        ": must be at least 2, 1 and 1, and the last at most 2^29"));
    EngramHash hash;
    hash.heads_ = config.engram_heads;
    hash.pad_ = token_map[pad];
    hash.image_token_ = config.image_token;
    hash.map_ = std::move(token_map);

    const auto columns = static_cast<size_t>(config.engram_columns());
    const size_t layers = config.engram_layers.size();
    const auto primes = primes_from(config.engram_vocab, columns * layers);
    // Keeps the product of any compressed id and any multiplier below 2^63.
    const auto bound = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() /
                                             config.engram_compressed_vocab / 2);
    for (size_t which = 0; which < layers; ++which) {
        const auto first = primes.begin() + static_cast<std::ptrdiff_t>(which * columns);
        hash.primes_.emplace_back(first, first + static_cast<std::ptrdiff_t>(columns));
        int64_t rows = 0;
        for (int64_t prime : hash.primes_.back()) rows += prime;
        const int64_t expected = which < config.engram_rows.size() ? config.engram_rows[which] : 0;
        if (rows != expected)
            return fail(
                Code::unsupported,
                cat("engram_num_embeddings: layer ", config.engram_layers[which], " has ", expected,
                    " rows, but engram_vocab_size ", config.engram_vocab, " gives ", rows));
        const auto seed = 10007 * static_cast<uint64_t>(config.engram_layers[which]);
        auto draws = numpy_integers(seed, bound, static_cast<size_t>(config.engram_ngram));
        for (uint64_t& draw : draws) draw = 2 * draw + 1;
        hash.multipliers_.push_back(std::move(draws));
    }
    return hash;
}

template <class CodeOf>
void EngramHash::hash(size_t which, std::span<const int32_t> history, std::span<const int32_t> ids,
                      std::span<uint64_t> rows, CodeOf code_of) const {
    const auto& primes = primes_[which];
    const auto& multipliers = multipliers_[which];
    const auto heads = static_cast<size_t>(heads_);
    uint64_t* row = rows.data();
    for (size_t i = 0; i < ids.size(); ++i) {
        // Looking back, everything from an image or the sequence start on is padding.
        bool padded = false;
        uint64_t offset = 0, mixed = 0;
        for (size_t back = 0; back < multipliers.size(); ++back) {
            int32_t code = image;
            if (back <= i)
                code = code_of(ids[i - back]);
            else if (back - i <= history.size())
                code = code_of(history[history.size() - (back - i)]);
            padded = padded || code == image;
            mixed ^= static_cast<uint64_t>(padded ? pad_ : code) * multipliers[back];
            if (back == 0) continue;
            for (size_t head = 0; head < heads; ++head) {
                const auto prime = static_cast<uint64_t>(primes[(back - 1) * heads + head]);
                *row++ = mixed % prime + offset;
                offset += prime;
            }
        }
    }
}

void EngramHash::rows(size_t which, std::span<const int32_t> history, std::span<const int32_t> ids,
                      std::span<uint64_t> rows) const {
    hash(which, history, ids, rows,
         [this](int32_t id) { return id == image_token_ ? image : map_[static_cast<size_t>(id)]; });
}

void EngramHash::rows_of_compressed(size_t which, std::span<const int32_t> history,
                                    std::span<const int32_t> ids, std::span<uint64_t> rows) const {
    hash(which, history, ids, rows, [](int32_t code) { return code; });
}

}  // namespace sluice
