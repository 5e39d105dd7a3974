#include "engine/forward/head.h"

#include <algorithm>
#include <vector>

#include "io/clock.h"
#include "io/profile.h"
#include "io/text.h"
#include "kernels/numerics.h"

namespace sluice {

namespace {

tl::unexpected<Error> logit_not_finite(size_t id, int32_t position) {
    return fail(Code::numerical, cat("the logit of token ", id, " at position ", position,
                                     " is not a finite number"));
}

Result<void> check_finite(std::span<const float> logits, int32_t position) {
    for (size_t id = 0; id < logits.size(); ++id) {
        if (!is_finite(logits[id])) return logit_not_finite(id, position);
    }
    return {};
}

// Logits of `count` rows of x [count][D] to the host.
Result<void> head_rows(const HeadInputs& in, const HeadBuffers& buffers, Backend& device,
                       const HostHead& host, const bf16* x, int32_t count, float* logits) {
    const uint64_t dim = in.config.hidden, vocab = in.config.vocab;
    if (!host.backend) {
        device.run(LinearBf16{nullptr, buffers.logits, in.weights.head, x, count});
        return device.download(logits, buffers.logits, vocab * count * sizeof(float));
    }
    std::vector<bf16> rows(dim * count);
    auto done = device.download(rows.data(), x, rows.size() * sizeof(bf16));
    if (!done) return done;
    const auto start = Clock::now();
    host.backend->run(LinearBf16{nullptr, logits, in.weights.head, rows.data(), count});
    host.seconds += seconds_since(start);
    return {};
}

// The best token of the last row, chosen where the logits are.
Result<void> best_row(const HeadInputs& in, const HeadBuffers& buffers, Backend& device,
                      const bf16* x, int32_t& best) {
    device.run(LinearBf16{nullptr, buffers.logits, in.weights.head, x, 1});
    device.run(Best{buffers.best, buffers.logits, 1, in.config.vocab});
    int32_t place[2];
    if (auto done = device.download(place, buffers.best, sizeof place); !done) return done;
    if (place[1] >= 0) return logit_not_finite(place[1], in.at.end() - 1);
    best = place[0];
    return {};
}

}  // namespace

Result<void> run_head(const HeadInputs& in, const Wanted& wanted, Streams& streams,
                      const HeadBuffers& buffers, Backend& device, const HostHead& host,
                      const PassHooks& hooks) {
    const spans::Leaf leaf("head");
    const ModelConfig& c = in.config;
    const int32_t n = in.at.n;
    const uint64_t dim = c.hidden;
    if (n == 1) device.begin_repeat(c.layers);
    streams.settle();
    streams.collapse(in.weights.hc_head ? &*in.weights.hc_head : nullptr, buffers.pre);
    const SublayerIo& io = streams.io();
    if (in.weights.hc_head) {
        if (auto r = hooks.probe.see(-1, "head_in", io.collapsed, n * dim); !r) return r;
    }
    device.run(RmsNorm{io.x, io.collapsed, in.weights.norm, n, c.hidden, c.norm_eps});
    if (auto r = hooks.probe.see(-1, "final_norm_out", io.x, n * dim); !r) return r;

    if (wanted.best && !hooks.probe && !host.backend) {
        return best_row(in, buffers, device, io.x + (n - 1) * dim, *wanted.best);
    }
    const auto vocab = static_cast<size_t>(c.vocab);
    int32_t row = wanted.every_position ? 0 : n - 1;
    std::vector<float> logits(vocab * std::min(n - row, buffers.logit_rows));
    while (row < n) {
        const int32_t count = std::min(n - row, buffers.logit_rows);
        auto done = head_rows(in, buffers, device, host, io.x + row * dim, count, logits.data());
        if (!done) return done;
        for (int32_t i = 0; i < count; ++i) {
            const std::span<const float> one(logits.data() + vocab * i, vocab);
            const int32_t position = in.at.first + row + i;
            if (auto finite = check_finite(one, position); !finite) return finite;
            hooks.probe.see_host(-1, "logits", one);
            if (wanted.logits) wanted.logits(position, one);
        }
        row += count;
    }
    return {};
}

}  // namespace sluice
