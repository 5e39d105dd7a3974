// The kernels of the first CUDA device at V4.1-Flash's shapes: microseconds, bytes a second, and
// the share of a device copy's rate in the same run. Operands rotate among copies that are larger
// than the cache together.
//
//   bench_gpu [rows of a prompt chunk [anything: those alone]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "io/text.h"
#include "kernels/backend.h"

namespace {

using namespace sluice;

constexpr int32_t dim = 5120, inner = 2304, heads = 64, head_dim = 512, q_rank = 1280, groups = 8;
constexpr int32_t o_rank = 1024, experts = 384, top_k = 6, window = 128, picked = 512;

struct Bench {
    Backend& backend;
    double copy_rate = 0;  // bytes read and written a second
    uint64_t state = 88172645463325252ull;

    uint64_t random() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state;
    }
    // A megabyte of random bytes, again and again.
    template <class T, class Next>
    T* fill(size_t count, const Next& next) {
        auto memory = backend.allocate(count * sizeof(T) + 256, "bench");
        if (!memory) {
            std::fprintf(stderr, "%s\n", memory.error().message.c_str());
            std::exit(4);
        }
        size_t size = count * sizeof(T), period = std::min<size_t>(size, (1 << 20) - 32);
        std::vector<uint8_t> bytes(period);
        for (auto& b : bytes) b = next();
        backend.upload(*memory, bytes.data(), period);
        for (size_t at = period; at < size; at *= 2)
            backend.copy(*memory + at, *memory, std::min(at, size - at));
        return reinterpret_cast<T*>(*memory);
    }
    template <class T>
    T* take(size_t count, uint8_t low = 0x60, uint8_t high = 0x7f) {
        return fill<T>(count,
                       [&] { return (uint8_t)(low + random() % (uint64_t)(high - low + 1)); });
    }
    Fp8Matrix fp8(int32_t rows, int32_t cols) {
        return {take<uint8_t>((size_t)rows * cols, 0, 0x7e),
                take<uint8_t>((size_t)(rows + 31) / 32 * (cols / 32), 112, 118), rows, cols};
    }
    Fp4Matrix fp4(int32_t rows, int32_t cols) {
        return {take<uint8_t>((size_t)rows * cols / 2, 0, 255),
                take<uint8_t>((size_t)rows * cols / 32, 116, 120), rows, cols};
    }
    QuantRows rows(int32_t n, int32_t cols) {
        auto next = [&] {  // near enough to normal: four uniform numbers
            float sum = -2.0f;
            for (int i = 0; i < 4; ++i) sum += (float)(random() >> 40) / 16777216.0f;
            return float_to_e4m3(sum * 220.0f);
        };
        return {fill<uint8_t>((size_t)n * cols, next),
                take<uint8_t>((size_t)n * cols / 32, 116, 120)};
    }

    // Seconds of one call; `run(i)` uses operand set i.
    template <class Run>
    double time(int repeats, const Run& run) {
        double best = 1e9;
        for (int round = 0; round < 5; ++round) {
            (void)backend.synchronize();
            auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < repeats; ++i) run(i);
            auto done = backend.synchronize();
            if (!done) {
                std::fprintf(stderr, "%s\n", done.error().message.c_str());
                std::exit(4);
            }
            double s =
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            best = std::min(best, s / repeats);
        }
        return best;
    }
    template <class Run>
    void row(const char* name, double bytes, int repeats, const Run& run) {
        double s = time(repeats, run);
        std::printf("%-44s %9.1f us %8.0f GB/s  %5.1f %%\n", name, s * 1e6, bytes / s / 1e9,
                    100 * bytes / s / copy_rate);
    }
};

void measure_copy(Bench& b) {
    size_t bytes = 1ull << 30;
    auto *from = b.take<uint8_t>(bytes), *to = b.take<uint8_t>(bytes);
    double s = b.time(10, [&](int) { b.backend.copy(to, from, bytes); });
    b.copy_rate = 2.0 * (double)bytes / s;
    std::printf("device copy, read and written: %.0f GB/s\n", b.copy_rate / 1e9);
}

void dense(Bench& b, int32_t n) {
    constexpr int copies = 6;
    struct Shape {
        const char* name;
        int32_t rows, cols;
    };
    for (Shape s : {Shape{"wq_a", q_rank, dim}, Shape{"wq_b", heads * head_dim, q_rank},
                    Shape{"wkv", head_dim, dim}, Shape{"wo_b", dim, groups * o_rank},
                    Shape{"shared w1", inner, dim}, Shape{"shared w2", dim, inner}}) {
        std::vector<Fp8Matrix> w;
        for (int i = 0; i < copies; ++i) w.push_back(b.fp8(s.rows, s.cols));
        QuantRows x = b.rows(n, s.cols);
        auto* y = b.take<bf16>((size_t)n * s.rows);
        std::string name = cat("LinearFp8 ", s.name, ", ", n, " rows");
        b.row(name.c_str(), (double)s.rows * s.cols, n > 64 ? 20 : 200, [&](int i) {
            b.backend.run(LinearFp8{y, w[i % copies], x, n});
        });
    }
    std::vector<Fp8Matrix> w;
    for (int i = 0; i < copies; ++i) w.push_back(b.fp8(groups * o_rank, heads * head_dim / groups));
    auto* o = b.take<bf16>((size_t)n * heads * head_dim, 0x3c, 0x3f);
    auto* t = b.take<bf16>((size_t)n * groups * o_rank);
    std::string name = cat("GroupedOutput wo_a, ", n, " rows");
    b.row(name.c_str(), (double)groups * o_rank * heads * head_dim / groups, n > 64 ? 20 : 200,
          [&](int i) {
              b.backend.run(GroupedOutput{t, w[i % copies], o, n, groups});
          });
}

void routed(Bench& b, int32_t n) {
    constexpr int copies = 12;
    std::vector<ExpertWeights> w;
    for (int i = 0; i < copies; ++i)
        w.push_back({b.fp4(inner, dim), b.fp4(dim, inner), b.fp4(inner, dim)});
    QuantRows x = b.rows(n, dim);
    auto* out = b.take<bf16>((size_t)std::max(n, top_k) * dim);
    std::vector<int32_t> ids(std::max(n, top_k));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = (int32_t)i;
    std::vector<int32_t> zeros(ids.size(), 0);
    auto* slots = b.take<int32_t>(ids.size());
    auto* first = b.take<int32_t>(ids.size());
    b.backend.upload(slots, ids.data(), ids.size() * 4);
    b.backend.upload(first, zeros.data(), ids.size() * 4);
    auto* weights = b.take<float>(ids.size(), 0x3c, 0x3f);
    double bytes = 3.0 * inner * dim * 17 / 32;
    if (n == 1) {
        b.row("RoutedExpertBatch, 6 experts of one row", 6 * bytes, 100, [&](int i) {
            std::vector<RoutedExpert> items;
            for (int k = 0; k < top_k; ++k)
                items.push_back(
                    {out, w[(i * top_k + k) % copies], x, first, slots + k, weights, 1, 10.0f});
            b.backend.run(RoutedExpertBatch{items.data(), top_k});
        });
        return;
    }
    std::string name = cat("RoutedExpert, ", n, " rows");
    b.row(name.c_str(), bytes, 20, [&](int i) {
        b.backend.run(RoutedExpert{out, w[i % copies], x, slots, slots, weights, n, 10.0f});
    });
}

// All experts of a layer that a chunk chose, evenly, as the engine hands them over.
void routed_batch(Bench& b, int32_t n) {
    constexpr int32_t used = 48;
    int32_t each = n * top_k / used;
    if (each < 2) return;
    std::vector<int32_t> rows((size_t)used * each), slots(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = (int32_t)(i * 7 % (size_t)n);
        slots[i] = (int32_t)i;
    }
    auto lists = b.backend.allocate_shared(rows.size() * 12, "lists");
    if (!lists) std::exit(4);
    auto* at = reinterpret_cast<int32_t*>(*lists);
    std::copy(rows.begin(), rows.end(), at);
    std::copy(slots.begin(), slots.end(), at + rows.size());
    auto* weights = reinterpret_cast<float*>(at + 2 * rows.size());
    std::fill(weights, weights + rows.size(), 0.25f);
    QuantRows x = b.rows(n, dim);
    auto* out = b.take<bf16>(rows.size() * dim);
    std::vector<RoutedExpert> items;
    for (int32_t i = 0; i < used; ++i) {
        size_t first = (size_t)i * each;
        items.push_back({out,
                         {b.fp4(inner, dim), b.fp4(dim, inner), b.fp4(inner, dim)},
                         x,
                         at + first,
                         at + rows.size() + first,
                         weights + first,
                         each,
                         10.0f});
    }
    std::string name = cat("RoutedExpertBatch, 48 experts of ", each, " rows");
    b.row(name.c_str(), used * 3.0 * inner * dim * 17 / 32, 2, [&](int) {
        b.backend.run(RoutedExpertBatch{items.data(), used});
    });
}

void attention(Bench& b, int32_t n) {
    auto* q = b.take<bf16>((size_t)n * heads * head_dim, 0x3c, 0x3f);
    auto* o = b.take<bf16>((size_t)n * heads * head_dim);
    auto *ring = b.take<bf16>((size_t)window * head_dim, 0x3c, 0x3f),
         *chunk = b.take<bf16>((size_t)n * head_dim, 0x3c, 0x3f);
    auto* rows = b.take<bf16>((size_t)8192 * head_dim, 0x3c, 0x3f);
    std::vector<int32_t> top((size_t)n * picked);
    for (size_t i = 0; i < top.size(); ++i) top[i] = (int32_t)(i % picked) * 8;
    auto* topk = b.take<int32_t>(top.size());
    b.backend.upload(topk, top.data(), top.size() * 4);
    auto* sink = b.take<float>(heads, 0x3c, 0x3f);
    std::string name = cat("SparseAttention, 640 keys, ", n, " rows");
    b.row(name.c_str(), (double)n * 640 * head_dim * 2, n > 64 ? 10 : 100, [&](int) {
        b.backend.run(SparseAttention{o, q, ring, chunk, rows, topk, sink, n, heads, head_dim,
                                      window, 8192, picked, 0.044f});
    });
}

void between(Bench& b, int32_t n) {
    constexpr int copies = 40;
    std::vector<float*> fn;
    for (int i = 0; i < copies; ++i) fn.push_back(b.take<float>((size_t)24 * 4 * dim, 0x20, 0x3c));
    HyperStep op{};
    auto *h = b.take<bf16>((size_t)n * 4 * dim, 0x3c, 0x3f),
         *h2 = b.take<bf16>((size_t)n * 4 * dim);
    auto *y = b.take<bf16>((size_t)n * dim, 0x3c, 0x3f), *x = b.take<bf16>((size_t)n * dim);
    auto *c = b.take<bf16>((size_t)n * dim), *w = b.take<bf16>(dim, 0x3c, 0x3f);
    auto *coefficients = b.take<float>((size_t)n * 64, 0x3c, 0x3e),
         *more = b.take<float>((size_t)n * 64);
    auto* small = b.take<float>(32, 0x3c, 0x3e);
    // The engine keeps the streams of many tokens in place.
    if (n > 8) h2 = h;
    op.expand = {h, y, coefficients, coefficients + n * 4, n, 4, dim};
    op.mix = {more, more + n * 4, more + n * 8, h2,   {nullptr, 24, 4 * dim}, small, small, n, 4,
              dim,  20,           1e-20f,       1e-6f};
    op.collapse = {c, coefficients + n * 40, h2, n, 4, dim};
    op.norm = {x, c, w, n, dim, 1e-20f};
    op.quant = {b.rows(n, dim), x, n, dim};
    std::string name = cat("HyperStep, ", n, " rows");
    b.row(name.c_str(), 24.0 * 4 * dim * 4 + 16.0 * n * dim, n > 64 ? 20 : 200, [&](int i) {
        op.mix.fn.data = fn[i % copies];
        b.backend.run(op);
    });
    Bf16Matrix gate{b.take<bf16>((size_t)experts * dim, 0x3c, 0x3d), experts, dim};
    auto* ids = b.take<int32_t>((size_t)n * top_k);
    std::string route = cat("Route, ", n, " rows");
    b.row(route.c_str(), 2.0 * experts * dim, n > 64 ? 20 : 200, [&](int) {
        b.backend.run(Route{ids, more, gate, (float*)small, x, n, top_k, 1.5f});
    });
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    int32_t chunk = argc > 1 ? std::atoi(argv[1]) : 512;
    auto made = make_cuda_backend({0, 40ull << 30});
    if (!made) {
        std::fprintf(stderr, "%s\n", made.error().message.c_str());
        return 4;
    }
    Backend& backend = **made;
    Shapes largest;
    largest.n = std::max(chunk, 8);
    largest.dim = dim, largest.inner = inner, largest.experts = experts, largest.top_k = top_k,
    largest.index_rows = 8192;
    largest.window = window, largest.index_topk = picked, largest.head_dim = head_dim,
    largest.heads = heads, largest.group_rank = o_rank;
    if (auto r = backend.reserve(largest); !r) return 4;
    Bench b{backend};
    std::printf("%s\n", backend.name().c_str());
    measure_copy(b);
    for (int32_t n : {1, chunk}) {
        if (n == 1 && argc > 2) continue;
        dense(b, n);
        routed(b, n == 1 ? 1 : 64);
        routed_batch(b, n);
        attention(b, n);
        between(b, n);
    }
    return 0;
}
