#include <doctest/doctest.h>
#include <sched.h>

#include <thread>

#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("backend: allocations are aligned, zeroed, and name what they were for") {
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        for (size_t bytes : {1, 100, 4096, 1'000'000}) {
            auto memory = on->allocate(bytes, "a test");
            REQUIRE(memory.has_value());
            CHECK(reinterpret_cast<uintptr_t>(*memory) % 256 == 0);
            std::vector<std::byte> content(bytes, std::byte{1});
            REQUIRE(on->download(content.data(), *memory, bytes).has_value());
            for (std::byte b : content) REQUIRE(b == std::byte{0});
        }
        auto none = on->allocate(size_t(1) << 60, "the moon");
        REQUIRE_FALSE(none.has_value());
        CHECK(none.error().code == Code::no_memory);
        CHECK(none.error().message.find("the moon") != std::string::npos);
        CHECK(on->synchronize().has_value());
    }
}

TEST_CASE("backend: bytes are uploaded, copied and downloaded") {
    Random random(41);
    auto bytes = random.bytes(10007);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Operands operands(on);
        uint8_t *a = operands.in(bytes), *b = operands.out<uint8_t>(bytes.size());
        on->copy(b, a, bytes.size());
        CHECK(operands.fetch(b, bytes.size()) == bytes);
        on->fill_zero(b + 3, 5);
        auto want = bytes;
        std::fill(want.begin() + 3, want.begin() + 8, uint8_t(0));
        CHECK(operands.fetch(b, bytes.size()) == want);
        on->copy(b, a, 0);
        on->fill_zero(b, 0);
        CHECK(operands.fetch(b, bytes.size()) == want);
    }
}

TEST_CASE("backend: a fetch completes while other work continues") {
    Random random(43);
    auto bytes = random.bytes(70'000);
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Operands operands(on);
        uint8_t *from = operands.in(bytes), *to = operands.out<uint8_t>(bytes.size());
        for (size_t count : {size_t{1}, size_t{48}, size_t{65'536}, bytes.size()}) {
            std::vector<uint8_t> got(count);
            on->fetch(from, count);
            on->copy(to, from, bytes.size());
            REQUIRE(on->fetched(got.data()).has_value());
            CHECK(std::equal(got.begin(), got.end(), bytes.begin()));
        }
        CHECK(operands.fetch(to, bytes.size()) == bytes);
    }
}

namespace {

// Three tokens through a norm, its quantisation and a linear, announced as a sequence that repeats.
// The second token has other operands, the third another number of operations.
std::vector<bf16> repeated_sequence(const TestBackend& on, Backend::Counters& counted) {
    Random random(44);
    const int32_t rows = 96, cols = 1280;  // a length that has a kernel for one row
    Operands operands(on);
    auto codes = random.e4m3(size_t(rows) * cols);
    auto scales = random.e8m0(size_t(3) * cols / 32, 110, 120);
    Fp8Matrix w{operands.in(codes), operands.in(scales), rows, cols};
    std::vector<bf16> ones(cols, to_bf16(1.0f)), all;
    bf16 *norm = operands.in(ones), *x = operands.out<bf16>(cols), *y[3];
    QuantRows xq{operands.out<uint8_t>(cols), operands.out<uint8_t>(cols / 32)};
    for (bf16*& out : y) out = operands.out<bf16>(rows);
    on->clear_counters();
    for (int token = 0; token < 3; ++token) {
        std::vector<bf16> values(cols);
        for (bf16& v : values) v = to_bf16(random.uniform(-1.0f, 1.0f));
        bf16* in = operands.in(values);
        on->begin_repeat(7);
        on->run(RmsNorm{x, in, norm, 1, cols, 1e-6f});
        on->run(ActQuant{xq, x, 1, cols});
        on->run(LinearFp8{y[token], w, xq, 1});
        if (token == 2) on->run(RmsNorm{y[0], y[0], norm, 1, rows, 1e-6f});
        auto got = operands.fetch(y[token], rows);
        all.insert(all.end(), got.begin(), got.end());
    }
    auto first = operands.fetch(y[0], rows);
    all.insert(all.end(), first.begin(), first.end());
    counted = on->counters();
    return all;
}

}  // namespace

TEST_CASE("backend: a repeated sequence of operations gives the same bits as a graph") {
    auto devices = cuda_devices();
    for (size_t i = 0; devices && i < devices->size(); ++i) {
        std::vector<bf16> plain;
        for (bool overlap : {false, true})
            for (bool graphs : {false, true}) {
                CAPTURE(graphs);
                CAPTURE(overlap);
                auto made = make_cuda_backend({int(i), 64ull << 20, graphs, overlap});
                REQUIRE(made.has_value());
                TestBackend on{std::move(*made), false};
                Backend::Counters counted;
                auto got = repeated_sequence(on, counted);
                if (plain.empty()) plain = got;
                CHECK(differences(got, plain) == 0);
                CHECK(counted.graphs == (graphs ? 3 : 0));
                CHECK(counted.launches == (graphs ? 3 : 10));
            }
    }
    for (auto& on : backends_present()) {
        if (!on.cpu) continue;
        Backend::Counters counted;
        CHECK(repeated_sequence(on, counted).size() == 4 * 96);
    }
}

TEST_CASE(
    "backend: a CUDA device refuses the rank of an output group that its tiles do not divide") {
    for (auto& on : backends_present()) {
        if (on.cpu) continue;
        Shapes shapes;
        shapes.group_rank = 20;
        auto reserved = on->reserve(shapes);
        REQUIRE_FALSE(reserved.has_value());
        CHECK(reserved.error().code == Code::unsupported);
        CHECK(reserved.error().message.find("o_lora_rank 20") != std::string::npos);
    }
}

TEST_CASE("backend: instruction sets and threads by name") {
    auto isas = cpu_isas();
    REQUIRE_FALSE(isas.empty());
    CHECK(isas.front() == CpuIsa::scalar);
    for (CpuIsa isa : isas) {
        auto backend = make_cpu_backend({isa, 3});
        REQUIRE(backend.has_value());
        CHECK((*backend)->name() == std::string("cpu (") + isa_name(isa) + ", 3 threads)");
        CHECK((*backend)->host_memory());
    }
    auto automatic = make_cpu_backend({});
    REQUIRE(automatic.has_value());
    CHECK((*automatic)->name().find(isa_name(isas.back())) != std::string::npos);
    CHECK((*automatic)->name().find(std::to_string(usable_cpus()) + " thread") !=
          std::string::npos);
    auto one = make_cpu_backend({CpuIsa::scalar, 1});
    CHECK((*one)->name() == "cpu (scalar, 1 thread)");
}

TEST_CASE("backend: impossible settings are refused by name") {
    for (int threads : {-1, -1000, 1025, 1 << 30}) {
        auto backend = make_cpu_backend({CpuIsa::automatic, threads});
        REQUIRE_FALSE(backend.has_value());
        CHECK(backend.error().code == Code::usage);
        CHECK(backend.error().message.find(std::to_string(threads)) != std::string::npos);
    }
    auto isas = cpu_isas();
    for (CpuIsa isa : {CpuIsa::avx2, CpuIsa::avx512, CpuIsa::amx}) {
        bool has = std::find(isas.begin(), isas.end(), isa) != isas.end();
        auto backend = make_cpu_backend({isa, 1});
        CHECK(backend.has_value() == has);
        if (!has) CHECK(backend.error().code == Code::device);
    }
}

TEST_CASE("backend: usable CPUs follow the affinity mask") {
    int all = usable_cpus();
    CHECK(all >= 1);
    int pinned = 0;
    std::thread([&] {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        int first = 0;
        while (!CPU_ISSET(first, &set)) ++first;
        CPU_ZERO(&set);
        CPU_SET(first, &set);
        if (sched_setaffinity(0, sizeof set, &set) == 0) pinned = usable_cpus();
    }).join();
    CHECK(pinned == 1);
    CHECK(usable_cpus() == all);
}

TEST_CASE("backend: more threads than CPUs or rows still give the same bits") {
    Random random(42);
    int32_t rows = 70, cols = 640, n = 3;
    auto codes = random.e4m3(size_t(rows) * cols), x = random.e4m3(size_t(n) * cols);
    auto scales = random.e8m0(size_t(3) * cols / 32, 110, 120);
    auto x_scales = random.e8m0(size_t(n) * cols / 32, 110, 120);
    std::vector<bf16> first;
    for (int threads : {1, 2, 3, 7, 64}) {
        auto made = make_cpu_backend({CpuIsa::automatic, threads});
        REQUIRE(made.has_value());
        TestBackend on{std::move(*made), true};
        Operands operands(on);
        bf16* y = operands.out<bf16>(size_t(n) * rows);
        on->run(LinearFp8{y,
                          {operands.in(codes), operands.in(scales), rows, cols},
                          {operands.in(x), operands.in(x_scales)},
                          n});
        auto got = operands.fetch(y, size_t(n) * rows);
        if (first.empty()) first = got;
        CHECK(differences(got, first) == 0);
    }
}
