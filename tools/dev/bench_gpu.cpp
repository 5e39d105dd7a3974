// The kernels of the first CUDA device at a model's shapes (V4.1-Flash's unless --shape says more):
// microseconds, bytes per second, and the share of a device copy's rate in the same run. Operands
// rotate among copies that together are larger than the cache.
//
//   bench_gpu [--shape v4-flash|v4-pro] [rows of a prompt chunk [anything: only those]]
//
// First come the stages of a layer for one token, and the layer as a whole: launched kernel by
// kernel, as a graph, and both without the overlap of kernels that compute 9.0 and later have.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/clock.h"
#include "io/text.h"
#include "kernels/backend.h"

namespace {

using namespace sluice;

constexpr int32_t head_dim = 512, o_rank = 1024, top_k = 6, window = 128;
int32_t dim = 5120, inner = 2304, heads = 64, q_rank = 1280, groups = 8, experts = 384;
int32_t picked = 512, group = 32;  // group: of quantised activations; V4 has 128

// False for a shape that is not known.
bool set_shape(const std::string& name) {
    group = 128;
    if (name == "v4-flash") return dim = 4096, inner = 2048, q_rank = 1024, experts = 256, true;
    if (name != "v4-pro") return false;
    dim = 7168, inner = 3072, heads = 128, q_rank = 1536, groups = 16, picked = 1024;
    return true;
}

struct Bench {
    Backend& backend;
    double copy_rate = 0;  // bytes read and written per second
    uint64_t state = 88172645463325252ull;

    uint64_t random() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return state;
    }
    // A megabyte of random bytes, repeated.
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
        return fill<T>(count, [&] { return uint8_t(low + random() % uint64_t(high - low + 1)); });
    }
    Fp8Matrix fp8(int32_t rows, int32_t cols) {
        return {take<uint8_t>(size_t(rows) * cols, 0, 0x7e),
                take<uint8_t>(size_t(rows + 31) / 32 * (cols / 32), 112, 118), rows, cols};
    }
    Fp4Matrix fp4(int32_t rows, int32_t cols) {
        return {take<uint8_t>(size_t(rows) * cols / 2, 0, 255),
                take<uint8_t>(size_t(rows) * cols / 32, 116, 120), rows, cols};
    }
    QuantRows rows(int32_t n, int32_t cols) {
        auto next = [&] {  // roughly normal: four uniform numbers
            float sum = -2.0f;
            for (int i = 0; i < 4; ++i) sum += float(random() >> 40) / 16777216.0f;
            return float_to_e4m3(sum * 220.0f);
        };
        return {fill<uint8_t>(size_t(n) * cols, next),
                take<uint8_t>(size_t(n) * cols / 32, 116, 120)};
    }

    // Seconds per call; `run(i)` uses operand set i.
    template <class Run>
    double time(int repeats, const Run& run) {
        double best = 1e9;
        for (int round = 0; round < 5; ++round) {
            static_cast<void>(backend.synchronize());
            auto start = Clock::now();
            for (int i = 0; i < repeats; ++i) run(i);
            auto done = backend.synchronize();
            if (!done) {
                std::fprintf(stderr, "%s\n", done.error().message.c_str());
                std::exit(4);
            }
            double s = seconds_since(start);
            best = std::min(best, s / repeats);
        }
        return best;
    }
    template <class Run>
    double row(const char* name, double bytes, int repeats, const Run& run) {
        double s = time(repeats, run);
        std::printf("%-44s %9.1f us %8.0f GB/s  %5.1f %%\n", name, s * 1e6, bytes / s / 1e9,
                    100 * bytes / s / copy_rate);
        return s;
    }
};

void measure_copy(Bench& b) {
    size_t bytes = 1ull << 30;
    auto *from = b.take<uint8_t>(bytes), *to = b.take<uint8_t>(bytes);
    double s = b.time(10, [&](int) { b.backend.copy(to, from, bytes); });
    b.copy_rate = 2.0 * double(bytes) / s;
    std::printf("device copy, read and written: %.0f GB/s\n", b.copy_rate / 1e9);
    // The rate of the same memory for a copy as short as a kernel for one row.
    struct Size {
        const char* name;
        size_t bytes;
    };
    size_t expert = size_t(3) * inner * dim * 17 / 32, wq_b = size_t(heads) * head_dim * q_rank;
    for (Size size : {Size{"copy that moves as much as wq_b holds", wq_b},
                      Size{"copy that moves as much as one expert", expert},
                      Size{"copy that moves as much as six experts", top_k * expert}}) {
        size_t half = size.bytes / 2 / 256 * 256, places = bytes / half;
        b.row(size.name, 2.0 * double(half), 200, [&](int i) {
            size_t at = size_t(i) % places * half;
            b.backend.copy(to + at, from + at, half);
        });
    }
}

// The routed experts of a token, drawn from a dozen.
std::function<void(int)> six_experts(Bench& b, QuantRows x, bf16* out) {
    std::vector<ExpertWeights> w;
    for (int i = 0; i < 12; ++i)
        w.push_back({b.fp4(inner, dim), b.fp4(dim, inner), b.fp4(inner, dim)});
    std::vector<int32_t> ids{0, 1, 2, 3, 4, 5}, zeros(top_k, 0);
    auto *slots = b.take<int32_t>(top_k), *first = b.take<int32_t>(top_k);
    b.backend.upload(slots, ids.data(), ids.size() * 4);
    b.backend.upload(first, zeros.data(), zeros.size() * 4);
    auto* weights = b.take<float>(top_k, 0x3c, 0x3f);
    Backend& on = b.backend;
    return [=, &on](int i) {
        std::vector<RoutedExpert> items;
        for (int k = 0; k < top_k; ++k)
            items.push_back({out, w[(i * top_k + k) % w.size()], x, first, slots + k, weights, 1,
                             10.0f, group});
        on.run(RoutedExpertBatch{items.data(), top_k});
    };
}

// What a decode step runs in every layer: one token, all keys, six experts in VRAM.
struct Stage {
    std::string name;
    double bytes;  // of weights, or keys
    std::function<void(int)> run;
};

constexpr int weight_copies = 6;

std::vector<Fp8Matrix> matrices(Bench& b, int32_t rows, int32_t cols) {
    std::vector<Fp8Matrix> w;
    for (int i = 0; i < weight_copies; ++i) w.push_back(b.fp8(rows, cols));
    return w;
}
double matrix_bytes(int32_t rows, int32_t cols) {
    return double(rows) * cols * 33 / 32;
}

// Activations of a token between two stages.
struct Token {
    explicit Token(Bench& b) : b(b) {}
    bf16* wide(int32_t count) { return b.take<bf16>(count, 0x3c, 0x3f); }

    Bench& b;
    bf16 *y = wide(dim), *x = wide(dim), *norm = wide(dim);
    bf16 *shared = wide(dim), *partial = wide(top_k * dim);
    QuantRows xq = b.rows(1, dim);
    float *one = b.take<float>(64, 0x3c, 0x3e), *other = b.take<float>(64, 0x3c, 0x3e);
    float* small = b.take<float>(32, 0x3c, 0x3e);
};

std::function<void(int)> hyper_step(Token& t) {
    bf16 *h = t.wide(4 * dim), *h2 = t.wide(4 * dim), *c = t.wide(dim);
    HyperStep op{};
    op.combine = {t.y, t.partial, t.shared, 1, top_k, dim};
    op.expand = {h, t.y, t.one, t.one + 4, 1, 4, dim};
    op.mix = {t.other, t.other + 4, t.other + 8, h2, {nullptr, 24, 4 * dim},
              t.small, t.small,     1,           4,  dim,
              20,      1e-20f,      1e-6f};
    op.collapse = {c, t.one + 40, h2, 1, 4, dim};
    op.norm = {t.x, c, t.norm, 1, dim, 1e-20f};
    op.quant = {t.xq, t.x, 1, dim, group};
    if (group == 128) op.collapse.pre = op.mix.pre;
    std::vector<float*> fn;
    for (int i = 0; i < weight_copies; ++i)
        fn.push_back(t.b.take<float>(size_t(24) * 4 * dim, 0x20, 0x3c));
    Backend& on = t.b.backend;
    return [=, &on](int i) mutable {
        op.mix.fn.data = fn[i % weight_copies];
        on.run(op);
    };
}

// From the latents to wo_b.
std::vector<Stage> attention_stages(Token& token) {
    Bench& b = token.b;
    Backend& on = b.backend;
    bf16 *qr = token.wide(q_rank), *kv = token.wide(head_dim), *q = token.wide(heads * head_dim);
    bf16 *o = token.wide(heads * head_dim), *t = token.wide(groups * o_rank), *y = token.y;
    bf16 *buffer = token.wide(window * head_dim), *rows = token.wide(8192 * head_dim);
    QuantRows xq = token.xq, qrq = b.rows(1, q_rank), tq = b.rows(1, groups * o_rank);
    float* turn = b.take<float>(64, 0x3c, 0x3e);
    auto rotate = [=](bf16* values, int32_t count, bool inverse) {
        RopeTable rope{turn, turn, 0, 1, 32};
        return RopeRequant{values, 1, count, head_dim, rope, 0, 1, inverse, Requant::none};
    };
    LatentFinish finish{};
    finish.query = {qr, qr, token.norm, 1, q_rank, 1e-20f};
    finish.query_quant = {qrq, qr, 1, q_rank, group};
    finish.key = {kv, kv, token.norm, 1, head_dim, 1e-20f};
    finish.key_place = rotate(kv, 1, false);
    finish.key_place.requant = group == 128 ? Requant::fp8_64 : Requant::fp8_32;
    finish.key_place.kept = group == 128 ? 64 : 0;
    finish.store = {buffer, kv, 1, head_dim, window, 5};
    std::vector<int32_t> top(picked);
    for (int32_t i = 0; i < picked; ++i) top[i] = i * 8;
    auto* topk = b.take<int32_t>(picked);
    b.backend.upload(topk, top.data(), top.size() * 4);
    RotatedAttention attend{};
    attend.query = rotate(q, heads, false);
    attend.back = rotate(o, heads, true);
    attend.attention = {o, q,     buffer,   kv,     rows, topk,   b.take<float>(heads, 0x3c, 0x3f),
                        1, heads, head_dim, window, 8192, picked, 0.044f};
    if (group == 128) attend.norm = {q, 1, heads, head_dim, 1e-6f};
    auto wq_a = matrices(b, q_rank, dim), wkv = matrices(b, head_dim, dim);
    auto wq_b = matrices(b, heads * head_dim, q_rank), wo_b = matrices(b, dim, groups * o_rank);
    auto wo_a = matrices(b, groups * o_rank, heads * head_dim / groups);
    auto latents = [=, &on](int i) {
        int w = i % weight_copies;
        on.run(LinearFp8Pair{{qr, wq_a[w], xq, 1}, {kv, wkv[w], xq, 1}});
    };
    auto queries = [=, &on](int i) { on.run(LinearFp8{q, wq_b[i % weight_copies], qrq, 1}); };
    auto grouped = [=, &on](int i) {
        on.run(GroupedOutputQuant{{t, wo_a[i % weight_copies], o, 1, groups},
                                  {tq, t, 1, groups * o_rank, group}});
    };
    auto out = [=, &on](int i) { on.run(LinearFp8{y, wo_b[i % weight_copies], tq, 1}); };
    return {{"wq_a and wkv", matrix_bytes(q_rank + head_dim, dim), latents},
            {"latent norms, key", 0, [=, &on](int) { on.run(finish); }},
            {"wq_b", matrix_bytes(heads * head_dim, q_rank), queries},
            {cat("attention, ", window + picked, " keys"), (window + picked) * head_dim * 2.0,
             [=, &on](int) { on.run(attend); }},
            {"wo_a", matrix_bytes(groups * o_rank, heads * head_dim / groups), grouped},
            {"wo_b", matrix_bytes(dim, groups * o_rank), out}};
}

// From the router on: one stage before the trip to the host, the others after it.
std::vector<Stage> expert_stages(Token& token) {
    Bench& b = token.b;
    Backend& on = b.backend;
    bf16 *x = token.x, *shared = token.shared, *act = token.wide(inner), *up = token.wide(inner);
    QuantRows xq = token.xq, actq = b.rows(1, inner);
    float *weights = token.other, *bias = token.small;
    Bf16Matrix gate{b.take<bf16>(size_t(experts) * dim, 0x3c, 0x3d), experts, dim};
    auto* ids = b.take<int32_t>(top_k);
    auto w1 = matrices(b, inner, dim), w3 = matrices(b, inner, dim), w2 = matrices(b, dim, inner);
    auto route = [=, &on](int) { on.run(Route{ids, weights, gate, bias, x, 1, top_k, 1.5f}); };
    auto gate_up = [=, &on](int i) {
        on.run(GateUp{{act, w1[i % weight_copies], xq, 1},
                      {up, w3[i % weight_copies], xq, 1},
                      {actq, act, up, nullptr, 1, inner, 10.0f, group}});
    };
    auto down = [=, &on](int i) { on.run(LinearFp8{shared, w2[i % weight_copies], actq, 1}); };
    return {
        {"router", 2.0 * experts * dim, route},
        {"shared expert, w1 and w3", matrix_bytes(2 * inner, dim), gate_up},
        {"shared expert, w2", matrix_bytes(dim, inner), down},
        {"six experts", top_k * 3.0 * inner * dim * 17 / 32, six_experts(b, xq, token.partial)}};
}

std::vector<Stage> layer_stages(Bench& b) {
    Token token(b);
    double mixed = 24.0 * 4 * dim * 4;
    auto step = hyper_step(token);
    std::vector<Stage> all = attention_stages(token);
    all.insert(all.begin(), {"step into attention", mixed, step});
    all.push_back({"step into the experts", mixed, step});
    for (Stage& stage : expert_stages(token)) all.push_back(std::move(stage));
    return all;
}

void layer(Bench& b, bool alone) {
    auto stages = layer_stages(b);
    double bytes = 0, sum = 0;
    for (const Stage& stage : stages) {
        bytes += stage.bytes;
        if (alone) sum += b.row(("stage: " + stage.name).c_str(), stage.bytes, 200, stage.run);
    }
    if (alone)
        std::printf("%-44s %9.1f us; its bytes at the copy rate: %.1f us\n",
                    "the stages, one by one", sum * 1e6, bytes / b.copy_rate * 1e6);
    int32_t before_trip = int32_t(stages.size()) - 3;
    b.row("a layer, as a decode step runs it", bytes, 200, [&](int i) {
        b.backend.begin_repeat(i % 40);
        for (int32_t s = 0; s < before_trip; ++s) stages[s].run(i);
        static_cast<void>(b.backend.mark_compute());  // sends what was recorded
        for (size_t s = before_trip; s < stages.size(); ++s) stages[s].run(i);
    });
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
        auto* y = b.take<bf16>(size_t(n) * s.rows);
        std::string name = cat("LinearFp8 ", s.name, ", ", n, " rows");
        b.row(name.c_str(), double(s.rows) * s.cols, n > 64 ? 20 : 200, [&](int i) {
            b.backend.run(LinearFp8{y, w[i % copies], x, n});
        });
    }
    std::vector<Fp8Matrix> w;
    for (int i = 0; i < copies; ++i) w.push_back(b.fp8(groups * o_rank, heads * head_dim / groups));
    auto* o = b.take<bf16>(size_t(n) * heads * head_dim, 0x3c, 0x3f);
    auto* t = b.take<bf16>(size_t(n) * groups * o_rank);
    std::string name = cat("GroupedOutput wo_a, ", n, " rows");
    b.row(name.c_str(), double(groups) * o_rank * heads * head_dim / groups, n > 64 ? 20 : 200,
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
    auto* out = b.take<bf16>(size_t(n) * dim);
    std::vector<int32_t> ids(n);
    for (int32_t i = 0; i < n; ++i) ids[i] = i;
    auto* slots = b.take<int32_t>(ids.size());
    b.backend.upload(slots, ids.data(), ids.size() * 4);
    auto* weights = b.take<float>(ids.size(), 0x3c, 0x3f);
    std::string name = cat("RoutedExpert, ", n, " rows");
    b.row(name.c_str(), 3.0 * inner * dim * 17 / 32, 20, [&](int i) {
        b.backend.run(RoutedExpert{out, w[i % copies], x, slots, slots, weights, n, 10.0f, group});
    });
}

// All experts of a layer that a chunk chose, evenly, in the form in which the engine passes them.
void routed_batch(Bench& b, int32_t n) {
    constexpr int32_t used = 48;
    int32_t each = n * top_k / used;
    if (each < 2) return;
    std::vector<int32_t> rows(size_t(used) * each), slots(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = int32_t(i * 7 % size_t(n));
        slots[i] = int32_t(i);
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
        size_t first = size_t(i) * each;
        ExpertWeights w{b.fp4(inner, dim), b.fp4(dim, inner), b.fp4(inner, dim)};
        const int32_t* chosen = at + first;
        items.push_back(
            {out, w, x, chosen, chosen + rows.size(), weights + first, each, 10.0f, group});
    }
    std::string name = cat("RoutedExpertBatch, 48 experts of ", each, " rows");
    b.row(name.c_str(), used * 3.0 * inner * dim * 17 / 32, 2, [&](int) {
        b.backend.run(RoutedExpertBatch{items.data(), used});
    });
}

void attention(Bench& b, int32_t n) {
    auto* q = b.take<bf16>(size_t(n) * heads * head_dim, 0x3c, 0x3f);
    auto* o = b.take<bf16>(size_t(n) * heads * head_dim);
    auto *buffer = b.take<bf16>(size_t(window) * head_dim, 0x3c, 0x3f),
         *chunk = b.take<bf16>(size_t(n) * head_dim, 0x3c, 0x3f);
    auto* rows = b.take<bf16>(size_t(8192) * head_dim, 0x3c, 0x3f);
    std::vector<int32_t> top(size_t(n) * picked);
    for (size_t i = 0; i < top.size(); ++i) top[i] = int32_t(i % picked) * 8;
    auto* topk = b.take<int32_t>(top.size());
    b.backend.upload(topk, top.data(), top.size() * 4);
    auto* sink = b.take<float>(heads, 0x3c, 0x3f);
    std::string name = cat("SparseAttention, ", window + picked, " keys, ", n, " rows");
    b.row(name.c_str(), double(n) * (window + picked) * head_dim * 2, n > 64 ? 10 : 100, [&](int) {
        b.backend.run(SparseAttention{o, q, buffer, chunk, rows, topk, sink, n, heads, head_dim,
                                      window, 8192, picked, 0.044f});
    });
}

void between(Bench& b, int32_t n) {
    constexpr int copies = 40;
    std::vector<float*> fn;
    for (int i = 0; i < copies; ++i) fn.push_back(b.take<float>(size_t(24) * 4 * dim, 0x20, 0x3c));
    HyperStep op{};
    auto *h = b.take<bf16>(size_t(n) * 4 * dim, 0x3c, 0x3f),
         *h2 = b.take<bf16>(size_t(n) * 4 * dim);
    auto *y = b.take<bf16>(size_t(n) * dim, 0x3c, 0x3f), *x = b.take<bf16>(size_t(n) * dim);
    auto *c = b.take<bf16>(size_t(n) * dim), *w = b.take<bf16>(dim, 0x3c, 0x3f);
    auto *coefficients = b.take<float>(size_t(n) * 64, 0x3c, 0x3e),
         *more = b.take<float>(size_t(n) * 64);
    auto* small = b.take<float>(32, 0x3c, 0x3e);
    // The engine keeps the streams of many tokens in place.
    if (n > 8) h2 = h;
    op.expand = {h, y, coefficients, coefficients + n * 4, n, 4, dim};
    op.mix = {more, more + n * 4, more + n * 8, h2,   {nullptr, 24, 4 * dim}, small, small, n, 4,
              dim,  20,           1e-20f,       1e-6f};
    op.collapse = {c, coefficients + n * 40, h2, n, 4, dim};
    op.norm = {x, c, w, n, dim, 1e-20f};
    op.quant = {b.rows(n, dim), x, n, dim, group};
    if (group == 128) op.collapse.pre = op.mix.pre;
    std::string name = cat("HyperStep, ", n, " rows");
    b.row(name.c_str(), 24.0 * 4 * dim * 4 + 16.0 * n * dim, n > 64 ? 20 : 200, [&](int i) {
        op.mix.fn.data = fn[i % copies];
        b.backend.run(op);
    });
    Bf16Matrix gate{b.take<bf16>(size_t(experts) * dim, 0x3c, 0x3d), experts, dim};
    auto* ids = b.take<int32_t>(size_t(n) * top_k);
    std::string route = cat("Route, ", n, " rows");
    b.row(route.c_str(), 2.0 * experts * dim, n > 64 ? 20 : 200, [&](int) {
        b.backend.run(Route{ids, more, gate, reinterpret_cast<float*>(small), x, n, top_k, 1.5f});
    });
}

// A backend with the scratch of its kernels reserved; if there is none, null and a message.
std::unique_ptr<Backend> open(const CudaOptions& options, int32_t rows) {
    auto made = make_cuda_backend(options);
    Shapes largest;
    largest.n = std::max(rows, 8);
    largest.dim = dim, largest.inner = inner, largest.experts = experts, largest.top_k = top_k,
    largest.index_rows = 8192;
    largest.window = window, largest.attended_rows = picked, largest.head_dim = head_dim,
    largest.heads = heads, largest.group_rank = o_rank;
    auto reserved = made ? (*made)->reserve(largest) : tl::unexpected(made.error());
    if (reserved) return std::move(*made);
    std::fprintf(stderr, "%s\n", reserved.error().message.c_str());
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (argc > 2 && std::string(argv[1]) == "--shape") {
        if (!set_shape(argv[2])) return std::fprintf(stderr, "no shape %s\n", argv[2]), 2;
        argc -= 2, argv += 2;
    }
    int32_t chunk = argc > 1 ? std::atoi(argv[1]) : 512;
    double copy_rate = 0;
    for (bool overlap : {true, false}) {
        for (bool graphs : {false, true}) {
            if (argc > 2) continue;
            auto backend = open({0, 6ull << 30, graphs, overlap}, 8);
            if (!backend) return 4;
            Bench b{*backend, copy_rate};
            bool first = copy_rate == 0;
            if (first) measure_copy(b);
            copy_rate = b.copy_rate;
            std::printf("%s, overlap %s:\n", graphs ? "graphs" : "kernels", overlap ? "on" : "off");
            layer(b, first);
        }
    }
    auto backend = open({0, 60ull << 30, false, true}, chunk);
    if (!backend) return 4;
    Bench b{*backend, copy_rate};
    std::printf("%s\n", backend->name().c_str());
    if (copy_rate == 0) measure_copy(b);
    for (int32_t n : {1, chunk}) {
        if (n == 1 && argc > 2) continue;
        dense(b, n);
        if (n > 1) routed(b, 64);
        routed_batch(b, n);
        attention(b, n);
        between(b, n);
    }
    return 0;
}
