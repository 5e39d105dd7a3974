#include "tools/plan/plan_rates.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "io/memory.h"
#include "tools/bench/bench_kernels.h"
#include "tools/bench/timing.h"

namespace sluice {

namespace {

constexpr double seconds_each = 0.12;  // per measurement
constexpr uint64_t memory_max = 192u
                                << 20;  // per kind of weights: several times the size of any cache
constexpr int32_t batch_rows = 64;
constexpr int in_a_row = 16;  // launches between two waits, where launches queue
constexpr uint64_t link_bytes = 64u << 20;
constexpr uint64_t copy_bytes = 128u << 20;
constexpr uint64_t measured_least = 1u << 20;

// E4M3 and E2M1 codes that are numbers, the same in every run; scales of about one.
std::vector<std::byte> plain_codes(uint64_t bytes) {
    std::vector<std::byte> codes(bytes);
    for (uint64_t i = 0; i < bytes; ++i) codes[i] = static_cast<std::byte>(i * 37 & 0x77);
    return codes;
}

// Weights that are used over and over, activations and results, within `room` bytes if that holds
// one matrix of each kind.
class Bench {
 public:
    Bench(Backend& backend, const ModelConfig& config, uint64_t room)
        : backend_(backend), c_(config), room_(room) {
        wide_ = std::max({c_.hidden, c_.moe_hidden, c_.heads * c_.head_dim, c_.q_rank, c_.vocab});
    }

    Result<void> prepare() {
        const uint64_t rows = batch_rows, wide = static_cast<uint64_t>(wide_);
        expert_ = 3 * static_cast<uint64_t>(c_.hidden) * c_.moe_hidden;  // values
        dense_ = static_cast<uint64_t>(c_.heads) * c_.head_dim * c_.q_rank;
        const uint64_t largest = std::max({expert_ / 2, dense_, uint64_t{2} * wide});
        const uint64_t scales = std::max(expert_, dense_) / 16 + wide;
        const uint64_t piece = round_up(rows * wide, page_size);  // of the codes, repeated
        const uint64_t others = 2 * scales + piece + rows * wide * 6;
        const uint64_t room =
            std::min({memory_max, backend_.memory_limit() / 4, room_ - std::min(room_, others)});
        weights_ = std::max(round_down(room, page_size), round_up(largest, page_size));
        auto codes = plain_codes(piece);
        const auto take = [&](auto*& to, uint64_t bytes) -> Result<void> {
            auto memory = backend_.allocate(bytes, "measuring");
            if (!memory) return tl::unexpected(memory.error());
            to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(*memory);
            return {};
        };
        if (auto r = take(codes_, weights_); !r) return r;
        if (auto r = take(scales_, scales); !r) return r;
        if (auto r = take(x_, rows * wide); !r) return r;
        if (auto r = take(x_scales_, rows * wide / 16); !r) return r;
        if (auto r = take(out_, rows * wide * sizeof(float)); !r) return r;
        if (auto r = take(ones_, rows * 4); !r) return r;
        auto lists = backend_.allocate_shared(rows * 4, "measuring");
        if (!lists) return tl::unexpected(lists.error());
        lists_ = reinterpret_cast<int32_t*>(*lists);
        for (int32_t i = 0; i < batch_rows; ++i) lists_[i] = i;
        for (uint64_t at = 0; at < weights_; at += piece) {
            backend_.upload(codes_ + at, codes.data(), std::min(piece, weights_ - at));
        }
        backend_.upload(x_, codes.data(), rows * wide);
        const std::vector<uint8_t> scale(scales, 120);
        backend_.upload(scales_, scale.data(), scale.size());
        const std::vector<uint8_t> x_scale(rows * wide / 16, 120);
        backend_.upload(x_scales_, x_scale.data(), x_scale.size());
        const std::vector<float> ones(batch_rows, 1.0f);
        backend_.upload(ones_, ones.data(), ones.size() * 4);
        return backend_.reserve({.n = batch_rows,
                                 .dim = c_.hidden,
                                 .inner = c_.moe_hidden,
                                 .experts = c_.experts,
                                 .top_k = c_.top_k,
                                 .index_rows = 1,
                                 .window = c_.window,
                                 .attended_rows = c_.index_topk,
                                 .head_dim = c_.head_dim,
                                 .heads = c_.heads,
                                 .group_rank = c_.o_rank});
    }

    // Operations a second, `once` queuing one.
    template <class Once>
    double operations(Once once) {
        const int launches = backend_.host_memory() ? 1 : in_a_row;
        return launches * rounds_a_second(seconds_each, [&] {
                   for (int i = 0; i < launches; ++i) once();
                   (void)backend_.synchronize();
               });
    }

    double dense(int32_t n) {
        const int32_t rows = c_.heads * c_.head_dim;
        return operations([&] {
            backend_.run(LinearFp8{
                bf16s(out_), {next(dense_), scales_, rows, c_.q_rank}, {x_, x_scales_}, n});
        });
    }
    double head(int32_t rows) {
        const uint64_t bytes = static_cast<uint64_t>(rows) * c_.hidden * sizeof(bf16);
        return operations([&] {
            const Bf16Matrix w{reinterpret_cast<const bf16*>(next(bytes)), rows, c_.hidden};
            backend_.run(LinearBf16{nullptr, out_, w, bf16s(x_), 1});
        });
    }
    double expert(int32_t n) {
        return operations([&] {
            const uint8_t* codes = next(expert_ / 2);
            const int32_t d = c_.hidden, f = c_.moe_hidden;
            const uint64_t third = expert_ / 3;
            const auto matrix = [&](uint64_t i, int32_t rows, int32_t cols) {
                return Fp4Matrix{codes + i * third / 2, scales_ + i * third / 32, rows, cols};
            };
            const RoutedExpert op{
                .out = bf16s(out_),
                .expert = {.w1 = matrix(0, f, d), .w2 = matrix(1, d, f), .w3 = matrix(2, f, d)},
                .x = {x_, x_scales_},
                .rows = lists_,
                .slots = lists_,
                .weights = ones_,
                .count = n,
                .limit = c_.swiglu_limit};
            backend_.run(RoutedExpertBatch{&op, 1});
        });
    }
    double norm() {
        return operations([&] {
            backend_.run(RmsNorm{bf16s(out_), bf16s(x_), bf16s(x_), 1, c_.hidden, c_.norm_eps});
        });
    }
    double trips() {
        float value = 0;
        return rounds_a_second(seconds_each / 4, [&] {
            backend_.run(RmsNorm{bf16s(out_), bf16s(x_), bf16s(x_), 1, c_.hidden, c_.norm_eps});
            (void)backend_.download(&value, out_, sizeof value);
        });
    }

    uint64_t weight_bytes() const { return weights_; }
    uint64_t dense_values() const { return dense_; }
    uint64_t expert_values() const { return expert_; }

 private:
    static bf16* bf16s(void* memory) { return static_cast<bf16*>(memory); }
    const uint8_t* next(uint64_t bytes) {
        if (at_ + bytes > weights_) at_ = 0;
        const uint8_t* codes = codes_ + at_;
        at_ += bytes;
        return codes;
    }

    Backend& backend_;
    const ModelConfig& c_;
    uint64_t room_;
    int32_t wide_ = 0;
    uint64_t dense_ = 0, expert_ = 0, weights_ = 0, at_ = 0;
    uint8_t *codes_ = nullptr, *scales_ = nullptr, *x_ = nullptr, *x_scales_ = nullptr;
    float *out_ = nullptr, *ones_ = nullptr;
    int32_t* lists_ = nullptr;
};

}  // namespace

const char* origin_name(Origin origin) {
    switch (origin) {
        case Origin::measured:
            return "measured";
        case Origin::paced:
            return "paced";
        case Origin::given:
            return "given";
        case Origin::assumed:
            return "assumed";
    }
    return "";
}

Result<KernelRates> measure_kernels(Backend& backend, const ModelConfig& config, uint64_t room) {
    Bench bench(backend, config, room);
    if (auto ready = bench.prepare(); !ready) return tl::unexpected(ready.error());
    const auto head_rows = static_cast<int32_t>(std::clamp<uint64_t>(
        bench.weight_bytes() / 2 / sizeof(bf16) / static_cast<uint64_t>(config.hidden), 1,
        static_cast<uint64_t>(config.vocab)));
    const double expert_bytes = static_cast<double>(bench.expert_values()) * (0.5 + 1.0 / 32);
    const double head_bytes = 2.0 * head_rows * config.hidden;
    KernelRates rates;
    rates.dense_bytes_s = static_cast<double>(bench.dense_values()) * bench.dense(1);
    rates.dense_macs_s =
        static_cast<double>(bench.dense_values()) * batch_rows * bench.dense(batch_rows);
    rates.head_bytes_s = head_bytes * bench.head(head_rows);
    rates.expert_bytes_s = expert_bytes * bench.expert(1);
    rates.expert_macs_s =
        static_cast<double>(bench.expert_values()) * batch_rows * bench.expert(batch_rows);
    rates.op_s = 1 / bench.norm();
    rates.trip_s = backend.host_memory() ? 0 : 1 / bench.trips();
    if (auto done = backend.synchronize(); !done) return tl::unexpected(done.error());
    return rates;
}

Result<double> measure_copy(int threads, uint64_t room) {
    const uint64_t bytes =
        std::max(measured_least, std::min(copy_bytes, round_down(room, page_size)));
    auto memory = PageBuffer::create(bytes, "measuring memory");
    if (!memory) return tl::unexpected(memory.error());
    std::memset(memory->data(), 1, memory->size());
    return copy_rate(memory->data(), memory->size(), threads, seconds_each);
}

Result<LinkRate> measure_link(Backend& backend, uint64_t room) {
    const uint64_t bytes =
        std::max(measured_least, std::min(link_bytes, round_down(room, page_size)));
    auto host = PageBuffer::create(bytes, "measuring the link");
    if (!host) return tl::unexpected(host.error());
    std::memset(host->data(), 1, host->size());
    auto device = backend.allocate(bytes, "measuring the link");
    if (!device) return tl::unexpected(device.error());
    if (auto pinned = backend.pin(host->span()); !pinned) return tl::unexpected(pinned.error());
    const double rounds = rounds_a_second(seconds_each, [&] {
        backend.upload_beside(*device, host->data(), bytes);
        (void)backend.wait_uploads(backend.mark_uploads());
    });
    if (auto done = backend.synchronize(); !done) return tl::unexpected(done.error());
    return LinkRate{rounds * static_cast<double>(bytes), Origin::measured};
}

KernelRates assumed_gpu() {
    return {.dense_bytes_s = 136e9,
            .dense_macs_s = 10e12,
            .head_bytes_s = 136e9,
            .expert_bytes_s = 136e9,
            .expert_macs_s = 10e12,
            .op_s = 4e-6,
            .trip_s = 30e-6,
            .origin = Origin::assumed};
}

LinkRate assumed_link() {
    return {25e9, Origin::assumed};
}

DriveRates assumed_drive() {
    return {7e9, 7e9, Origin::assumed};
}

}  // namespace sluice
