#include <doctest/doctest.h>

#include "kernels/reference/reference.h"
#include "tests/support/backends.h"
#include "tests/support/random.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Pool {
    int32_t dim, ratio, open_rows;
    std::vector<float> open_kv, open_gate;
    std::vector<bf16> latent;

    Pool(Random& random, int32_t dim, int32_t ratio, int32_t open_rows)
        : dim(dim),
          ratio(ratio),
          open_rows(open_rows),
          open_kv(random.floats(size_t(ratio) * dim, -3, 3)),
          open_gate(random.floats(size_t(ratio) * dim, -3, 3)) {}

    int32_t groups(int32_t n) const { return (open_rows + n) / ratio; }
    int32_t left(int32_t n) const { return (open_rows + n) % ratio; }
};

// Pools n more tokens; latents are appended.
void feed(const TestBackend* on, Pool& pool, const std::vector<float>& kv,
          const std::vector<float>& gate) {
    int32_t n = int32_t(kv.size()) / pool.dim;
    std::vector<bf16> latent(size_t(pool.groups(n)) * pool.dim);
    CompressPool op{latent.data(),         kv.data(), gate.data(), pool.open_kv.data(),
                    pool.open_gate.data(), n,         pool.dim,    pool.ratio,
                    pool.open_rows};
    if (!on) {
        reference::run(op);
    } else {
        Operands operands(*on);
        op.latent = operands.out<bf16>(latent.size());
        op.kv = operands.in(kv);
        op.gate = operands.in(gate);
        op.open_kv = operands.in(pool.open_kv);
        op.open_gate = operands.in(pool.open_gate);
        (*on)->run(op);
        if (!latent.empty()) latent = operands.fetch(op.latent, latent.size());
        pool.open_kv = operands.fetch(op.open_kv, pool.open_kv.size());
        pool.open_gate = operands.fetch(op.open_gate, pool.open_gate.size());
    }
    pool.latent.insert(pool.latent.end(), latent.begin(), latent.end());
    pool.open_rows = pool.left(n);
}

// The rows of the open group that are in use.
std::vector<float> live(const Pool& pool, const std::vector<float>& open) {
    return {open.begin(), open.begin() + size_t(pool.open_rows) * pool.dim};
}

}  // namespace

TEST_CASE("CompressPool: close to the reference, with every count of open rows") {
    Random random(1);
    for (int32_t dim : {1, 16, 40, 512})
        for (int32_t ratio : {1, 2, 3})
            for (int32_t open_rows = 0; open_rows < ratio; ++open_rows)
                for (int32_t n : {1, 2, 3, 8, 33}) {
                    CAPTURE(dim);
                    CAPTURE(ratio);
                    CAPTURE(open_rows);
                    CAPTURE(n);
                    Pool start(random, dim, ratio, open_rows), want = start, cpu = start;
                    std::vector<float> kv = random.floats(size_t(n) * dim, -3, 3);
                    std::vector<float> gate = random.floats(size_t(n) * dim, -30, 30);
                    feed(nullptr, want, kv, gate);
                    for (auto& on : backends_present()) {
                        CAPTURE(on.name());
                        Pool got = start;
                        feed(&on, got, kv, gate);
                        CHECK(nmse(got.latent, want.latent) <= 1e-6);
                        CHECK(differences(live(got, got.open_kv), live(want, want.open_kv)) == 0);
                        CHECK(differences(live(got, got.open_gate), live(want, want.open_gate)) ==
                              0);
                        if (!on.cpu) continue;
                        if (cpu.latent.empty()) cpu = got;
                        CHECK(differences(got.latent, cpu.latent) == 0);
                    }
                }
}

TEST_CASE("CompressPool: any split of the tokens gives the same latents") {
    Random random(2);
    const int32_t dim = 48, n = 23;
    std::vector<float> kv = random.floats(size_t(n) * dim, -3, 3);
    std::vector<float> gate = random.floats(size_t(n) * dim, -3, 3);
    for (auto& on : backends_present())
        for (int32_t ratio : {1, 2, 3}) {
            CAPTURE(on.name());
            CAPTURE(ratio);
            Pool start(random, dim, ratio, 0), whole = start;
            feed(&on, whole, kv, gate);
            for (int32_t step : {1, 2, 5}) {
                Pool parts = start;
                for (int32_t t = 0; t < n; t += step) {
                    size_t first = size_t(t) * dim, last = size_t(std::min(n, t + step)) * dim;
                    feed(&on, parts, {kv.begin() + first, kv.begin() + last},
                         {gate.begin() + first, gate.begin() + last});
                }
                CHECK(parts.open_rows == whole.open_rows);
                CHECK(differences(parts.latent, whole.latent) == 0);
                CHECK(differences(live(parts, parts.open_kv), live(whole, whole.open_kv)) == 0);
            }
        }
}

TEST_CASE("CompressPool: NaN stays in its feature and group, equal gates share evenly") {
    Random random(3);
    Pool start(random, 32, 2, 0);
    std::vector<float> kv = random.floats(4 * 32, -3, 3), gate(4 * 32, 7.0f);
    gate[1 * 32 + 5] = NAN;       // group 0, feature 5
    kv[2 * 32 + 6] = NAN;         // group 1, feature 6
    gate[2 * 32 + 9] = INFINITY;  // inf - inf
    for (auto& on : backends_present()) {
        CAPTURE(on.name());
        Pool got = start;
        feed(&on, got, kv, gate);
        for (size_t d = 0; d < 64; ++d) {
            bool nan = d == 5 || d == 32 + 6 || d == 32 + 9;
            CHECK(std::isnan(to_float(got.latent[d])) == nan);
            float even =
                round_bf16(0.5f * kv[d / 32 * 64 + d % 32] + 0.5f * kv[d / 32 * 64 + 32 + d % 32]);
            if (!nan) CHECK(to_float(got.latent[d]) == even);
        }
    }
}
