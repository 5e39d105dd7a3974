#include "tools/bench/bench_kernels.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "io/format.h"
#include "io/memory.h"
#include "io/text.h"
#include "tools/bench/timing.h"

namespace sluice {

namespace {

void fill_random(std::byte* to, size_t bytes) {
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        std::memcpy(to + i, &x, 8);
    }
}

// Experts of random codes, and rows of activations for them.
class Experts {
 public:
    static Result<Experts> create(const KernelBench& bench);

    size_t count() const { return count_; }
    uint64_t code_bytes() const { return 3 * values_ / 2; }

    // The operation for one expert; its rows go to the slots from `slot` on.
    RoutedExpert op(size_t expert, int32_t rows, int32_t slot = 0) {
        auto* codes = reinterpret_cast<uint8_t*>(codes_.data()) + expert * code_bytes();
        uint8_t* scales = scales_.data() + expert * (3 * values_ / 32);
        auto matrix = [&](uint64_t i, int32_t out, int32_t in) {
            return Fp4Matrix{codes + i * (values_ / 2), scales + i * (values_ / 32), out, in};
        };
        return {.out = out_.data(),
                .expert = {.w1 = matrix(0, inner_, dim_),
                           .w2 = matrix(1, dim_, inner_),
                           .w3 = matrix(2, inner_, dim_)},
                .x = {x_.data(), x_scales_.data()},
                .rows = rows_.data(),
                .slots = rows_.data() + slot,
                .weights = weights_.data(),
                .count = rows,
                .limit = 10.0f};
    }

 private:
    int32_t dim_ = 0, inner_ = 0;
    uint64_t values_ = 0;  // of one matrix
    size_t count_ = 0;
    PageBuffer codes_;
    std::vector<uint8_t> scales_, x_, x_scales_;
    std::vector<int32_t> rows_;
    std::vector<float> weights_;
    std::vector<bf16> out_;
};

Result<Experts> Experts::create(const KernelBench& bench) {
    Experts e;
    e.dim_ = bench.dim;
    e.inner_ = bench.inner;
    e.values_ = uint64_t(bench.dim) * bench.inner;
    e.count_ = std::max<size_t>(2, bench.memory / e.code_bytes());
    auto codes = PageBuffer::create(e.count_ * e.code_bytes(), "experts of the benchmark");
    if (!codes) return tl::unexpected(codes.error());
    e.codes_ = std::move(*codes);
    fill_random(e.codes_.data(), e.codes_.size());
    e.scales_.assign(e.count_ * (3 * e.values_ / 32), 120);
    const size_t rows = bench.batch_rows, width = bench.dim;
    e.x_.resize(rows * width);
    for (size_t i = 0; i < e.x_.size(); ++i) e.x_[i] = static_cast<uint8_t>(i * 37 % 0x7f);
    e.x_scales_.assign(rows * width / 32, 118);
    const int32_t slots = bench.batch_rows + bench.token_experts;
    for (int32_t r = 0; r < slots; ++r) e.rows_.push_back(r);
    e.weights_.assign(rows, 0.5f);
    e.out_.resize(static_cast<size_t>(slots) * width);
    return e;
}

struct Subject {
    KernelRate rate;
    std::unique_ptr<Backend> backend;
    std::vector<double> fp4, token, copy, batch;
};

Result<std::vector<Subject>> make_subjects(const KernelBench& bench) {
    std::vector<CpuIsa> isas = bench.isas.empty() ? cpu_isas() : bench.isas;
    std::vector<int> threads = bench.threads;
    if (threads.empty()) {
        threads = {1};
        if (usable_cpus() > 1) threads.push_back(usable_cpus());
    }
    std::vector<Subject> subjects;
    for (int count : threads)
        for (CpuIsa isa : isas) {
            auto backend = make_cpu_backend({.isa = isa, .threads = count});
            if (!backend) return tl::unexpected(backend.error());
            subjects.push_back(
                {{.isa = isa, .threads = count}, std::move(*backend), {}, {}, {}, {}});
        }
    return subjects;
}

void take_turn(const KernelBench& bench, Experts& experts, Subject& subject) {
    size_t next = 0;
    auto run = [&](int32_t count, int32_t rows) {
        std::vector<RoutedExpert> items;
        for (int32_t i = 0; i < count; ++i) {
            items.push_back(experts.op(next, rows, i));
            next = (next + 1) % experts.count();
        }
        subject.backend->run(RoutedExpertBatch{items.data(), count});
    };
    auto bytes = static_cast<double>(experts.code_bytes());
    const int32_t token = bench.token_experts;
    subject.fp4.push_back(bytes * rounds_a_second(bench.seconds, [&] { run(1, 1); }));
    subject.token.push_back(bytes * token * rounds_a_second(bench.seconds, [&] { run(token, 1); }));
    double batches = rounds_a_second(bench.seconds, [&] { run(1, bench.batch_rows); });
    subject.batch.push_back(2 * bytes * bench.batch_rows * batches);
}

}  // namespace

double copy_rate(std::byte* memory, size_t bytes, int threads, double seconds) {
    const size_t half = bytes / 2, part = half / threads;
    double rounds = rounds_a_second(seconds, [&] {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int t = 0; t < threads; ++t)
            std::memcpy(memory + half + t * part, memory + t * part, part);
    });
    return rounds * static_cast<double>(part) * threads;
}

Result<KernelBench> fit(KernelBench bench, uint64_t room) {
    const uint64_t two = uint64_t{3} * static_cast<uint64_t>(bench.dim) * bench.inner;
    const auto with_others = [](uint64_t codes) { return 2 * codes + codes / 16 + page_size; };
    if (room < with_others(two)) {
        return fail(Code::no_memory,
                    cat("--ram: measuring expert kernels (gemv) needs at least ",
                        size_text(with_others(two)), "; only ", size_text(room),
                        " is available; raise it, or choose other parts with --only"));
    }
    bench.memory = std::min(bench.memory, (room - page_size) / 33 * 16);
    return bench;
}

Result<std::vector<KernelRate>> bench_kernels(const KernelBench& bench) {
    auto experts = Experts::create(bench);
    if (!experts) return tl::unexpected(experts.error());
    auto copy = PageBuffer::create(round_up(bench.memory, page_size), "copies of the benchmark");
    if (!copy) return tl::unexpected(copy.error());
    std::memset(copy->data(), 1, copy->size());
    auto subjects = make_subjects(bench);
    if (!subjects) return tl::unexpected(subjects.error());
    for (int turn = 0; turn < bench.turns; ++turn)
        for (Subject& s : *subjects) {
            s.copy.push_back(copy_rate(copy->data(), copy->size(), s.rate.threads, bench.seconds));
            take_turn(bench, *experts, s);
        }
    std::vector<KernelRate> rates;
    for (Subject& s : *subjects) {
        s.rate.fp4_bytes_s = median(s.fp4);
        s.rate.token_bytes_s = median(s.token);
        s.rate.copy_bytes_s = median(s.copy);
        s.rate.batch_macs_s = median(s.batch);
        rates.push_back(s.rate);
    }
    return rates;
}

std::string kernels_text(const std::vector<KernelRate>& rates) {
    std::string out =
        "experts from memory, GB/s of FP4 codes per core: one by one, and one token's at once; "
        "memcpy per core: bytes copied, and bytes moved\n"
        "  isa     threads      one    token   memcpy    moved    share   batch GMAC/s per core\n";
    for (const KernelRate& r : rates) {
        const double unit = 1e9 * r.threads;
        out += formatted("  {:<7} {:7} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:7.1f} % {:12.1f}\n",
                         isa_name(r.isa), r.threads, r.fp4_bytes_s / unit, r.token_bytes_s / unit,
                         r.copy_bytes_s / unit, 2 * r.copy_bytes_s / unit, 100 * r.share(),
                         r.batch_macs_s / unit);
    }
    return out;
}

}  // namespace sluice
