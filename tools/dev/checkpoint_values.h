// The values that make_checkpoint writes into a tensor. Each byte depends only on the seed, the
// tensor's name and its place in the tensor, so any thread can make any part, and make it again.
//
// Codes are random. Scales let every linear layer keep the size of its input, so that activations
// stay finite. The router's scores of one token are those of independent normal logits, so the
// selection bias that gives an expert a wanted popularity can be computed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/model_shape.h"
#include "io/checksum.h"
#include "tools/dev/random.h"

namespace sluice {

struct PlannedTensor {
    std::string name, dtype;
    std::vector<uint64_t> shape;
    Storage storage;
    uint64_t tile = 32;              // of a scale tensor: values of the weight per scale, in a row
    uint64_t offset = 0, bytes = 0;  // in the data area
};

inline bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// ---- routing ------------------------------------------------------------------------------------

inline double normal_quantile(double p) {
    double low = -9, high = 9;
    for (int i = 0; i < 60; ++i) {
        double middle = (low + high) / 2;
        (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
    }
    return low;
}

// How often each expert of a layer is chosen, by rank: proportional to 1 / rank^skew, at most
// `most`, `top_k` in total.
inline std::vector<double> popularity(int experts, int top_k, double skew) {
    const double most = std::max(0.9, static_cast<double>(top_k) / experts);
    std::vector<double> out(static_cast<size_t>(experts));
    double low = 0, high = 1;
    auto total = [&](double factor) {
        double sum = 0;
        for (size_t i = 0; i < out.size(); ++i) {
            out[i] = std::min(most, factor * std::pow(static_cast<double>(i + 1), -skew));
            sum += out[i];
        }
        return sum;
    };
    while (total(high) < top_k && high < 1e30) high *= 2;
    for (int i = 0; i < 100; ++i) {
        double middle = (low + high) / 2;
        (total(middle) < top_k ? low : high) = middle;
    }
    total(high);
    return out;
}

// The selection bias of every expert of one layer. An expert is chosen with probability p when the
// bias lifts its score sqrt(softplus(normal logit)) from its own 1 - p quantile to that of the
// others.
inline std::vector<float> gate_bias(const ModelShape& s, uint64_t key) {
    if (s.skew <= 0) return std::vector<float>(static_cast<size_t>(s.experts), 0.0f);
    auto score_at = [](double p) {
        return std::sqrt(std::log1p(std::exp(normal_quantile(1 - p))));
    };
    const double even = score_at(std::min(0.9, static_cast<double>(s.top_k) / s.experts));
    std::vector<size_t> ranked(static_cast<size_t>(s.experts));
    std::iota(ranked.begin(), ranked.end(), size_t{0});
    std::sort(ranked.begin(), ranked.end(),
              [&](size_t a, size_t b) { return mix(key + a) < mix(key + b); });
    auto wanted = popularity(s.experts, s.top_k, s.skew);
    std::vector<float> bias(ranked.size());
    for (size_t i = 0; i < ranked.size(); ++i)
        bias[ranked[i]] = static_cast<float>(even - score_at(wanted[i]));
    return bias;
}

// ---- values of one tensor -----------------------------------------------------------------------

struct Values {
    uint64_t key = 0;              // seed of its random numbers
    float center = 0, spread = 0;  // uniform in center +- spread
    uint8_t scale = 127;           // E8M0 byte of scale tensors
    uint64_t ids = 0, row = 0;     // I64: below `ids`, different ones in a row of `row`
    std::vector<float> table;      // if not empty: the F32 values themselves
};

// Row length in elements. A scale tensor counts the elements of its weight.
inline uint64_t columns_of(const PlannedTensor& t) {
    uint64_t last = t.shape.back();
    return t.storage == Storage::fp4 ? last * 2 : t.storage == Storage::e8m0 ? last * t.tile : last;
}

inline Values values_of(const PlannedTensor& t, const ModelShape& s) {
    Values v;
    v.key = mix(s.seed ^ checksum(t.name.data(), t.name.size()));
    const double target = 1 / std::sqrt(static_cast<double>(columns_of(t)));
    // Root mean square of random codes: E2M1 nibbles 2.9, the E4M3 codes used here 1.1.
    const double codes = contains(t.name, ".ffn.experts.") ? 2.9 : 1.1;
    int doublings = static_cast<int>(std::lround(std::log2(target / codes)));
    // Attention output changes slowly from token to token; the stronger it is, the more alike the
    // router's inputs.
    if (contains(t.name, "attn.wo_b.")) doublings += s.locality;
    if (contains(t.name, "engram.embed")) doublings = 0;
    v.scale = static_cast<uint8_t>(127 + doublings);
    if (t.storage == Storage::i64) {
        v.ids = static_cast<uint64_t>(s.experts), v.row = t.shape.back();
    } else if (contains(t.name, "ffn.gate.bias")) {
        v.table = gate_bias(s, v.key);
    } else if (contains(t.name, "norm") || contains(t.name, "_scale") ||
               contains(t.name, "_weight")) {
        v.center = 1, v.spread = 0.1f;  // norms, hyper-connection scales, Engram gates
    } else if (t.name == "embed.weight" || contains(t.name, ".ape")) {
        v.spread = 1;  // of the size of a normed input's projections
    } else if (t.shape.size() == 1) {
        v.spread = 0.1f;  // biases, sinks
    } else {
        v.spread = static_cast<float>(target * std::sqrt(3.0));
    }
    return v;
}

inline float uniform(uint32_t bits, const Values& v) {
    return v.center + v.spread * (static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
}

inline uint16_t bf16_bits(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return static_cast<uint16_t>((bits + 0x8000) >> 16);
}

// Row `row` of a table of ids: v.row different ones (R. Floyd's sample).
inline void distinct_ids(const Values& v, uint64_t row, std::vector<int64_t>& out) {
    out.clear();
    for (uint64_t last = v.ids - v.row; last < v.ids; ++last) {
        const auto id = static_cast<int64_t>(mix(v.key + row * v.row + out.size()) % (last + 1));
        const bool taken = std::find(out.begin(), out.end(), id) != out.end();
        out.push_back(taken ? static_cast<int64_t>(last) : id);
    }
}

inline void fill_ids(const Values& v, uint64_t at, std::byte* out, size_t count) {
    std::vector<int64_t> ids;
    for (size_t i = 0; i < count; i += 8) {
        const uint64_t place = (at + i) / 8;
        if (i == 0 || place % v.row == 0) distinct_ids(v, place / v.row, ids);
        std::memcpy(out + i, &ids[place % v.row], 8);
    }
}

// Fills `out` with `count` bytes of the tensor, from byte `at` (a multiple of 8) on.
inline void fill(const PlannedTensor& t, const Values& v, uint64_t at, std::byte* out,
                 size_t count) {
    if (t.storage == Storage::e8m0) {
        std::memset(out, v.scale, count);
        return;
    }
    if (v.ids > 0) return fill_ids(v, at, out, count);
    if (!v.table.empty()) {
        std::memcpy(out, reinterpret_cast<const std::byte*>(v.table.data()) + at, count);
        return;
    }
    for (size_t i = 0; i < count; i += 8) {
        uint64_t bits = mix(v.key + (at + i) / 8);
        uint64_t word = bits;
        if (t.storage == Storage::fp8) {
            // Exponents around 1, any sign and mantissa: never NaN.
            word = (bits & 0x8f8f8f8f8f8f8f8fu) | 0x3030303030303030u;
        } else if (t.storage == Storage::bf16) {
            word = 0;
            for (int k = 0; k < 4; ++k) {
                auto part = static_cast<uint32_t>(bits >> (16 * k)) << 16;
                word |= uint64_t{bf16_bits(uniform(part, v))} << (16 * k);
            }
        } else if (t.storage == Storage::f32) {
            float pair[2] = {uniform(static_cast<uint32_t>(bits), v),
                             uniform(static_cast<uint32_t>(bits >> 32), v)};
            std::memcpy(&word, pair, 8);
        }
        std::memcpy(out + i, &word, std::min<size_t>(8, count - i));
    }
}

}  // namespace sluice
