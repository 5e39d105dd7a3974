#include "engine/forward/streams.h"

#include <cassert>
#include <utility>

namespace sluice {

Streams::Streams(const ModelConfig& config, int32_t n, const StreamBuffers& buffers,
                 const SublayerIo& io, Backend& device)
    : config_(&config),
      device_(&device),
      n_(n),
      buffers_(buffers),
      io_(io),
      h_(buffers.h),
      h_next_(n <= buffers.short_rows ? buffers.h_short : buffers.h),
      pre_(buffers.pre_a),
      pre_next_(buffers.pre_b),
      post_(buffers.post_a),
      post_next_(buffers.post_b),
      comb_(buffers.comb_a),
      comb_next_(buffers.comb_b) {}

void Streams::start(const std::vector<bf16>& rows) {
    const uint64_t dim = static_cast<uint64_t>(config_->hidden), n = static_cast<uint64_t>(n_);
    const int32_t hc = config_->hc;
    device_->upload(io_.x, rows.data(), rows.size() * sizeof(bf16));
    const size_t row = dim * sizeof(bf16);
    for (int32_t j = 0; j < hc; ++j) {
        device_->copy_rows(h_ + j * dim, hc * row, io_.x, row, row, n);
    }
    if (config_->arithmetic.own_mix) return;
    std::vector<float> pre(n * hc, 0.0f);
    for (uint64_t i = 0; i < n; ++i) pre[i * hc] = 1.0f;
    device_->upload(pre_, pre.data(), pre.size() * sizeof(float));
}

void Streams::enter(const HyperWeights& weights, const bf16* norm) {
    const ModelConfig& c = *config_;
    bf16* h = pending_ ? h_next_ : h_;
    HyperStep step{};
    if (combine_) step.combine = {io_.y, parts_.partial, parts_.shared, n_, c.top_k, c.hidden};
    if (pending_) step.expand = {h_, io_.y, post_, comb_, n_, c.hc, c.hidden};
    step.mix = {.pre = pre_next_,
                .post = post_next_,
                .comb = comb_next_,
                .h = h,
                .fn = weights.fn,
                .base = weights.base,
                .scale = weights.scale,
                .n = n_,
                .hc = c.hc,
                .dim = c.hidden,
                .iterations = c.hc_iterations,
                .eps = c.norm_eps,
                .hc_eps = c.hc_eps};
    float* collapsing = c.arithmetic.own_mix ? pre_next_ : pre_;
    step.collapse = {io_.collapsed, collapsing, h, n_, c.hc, c.hidden};
    step.norm = {io_.x, io_.collapsed, norm, n_, c.hidden, c.norm_eps};
    step.quant = {io_.xq, io_.x, n_, c.hidden, c.arithmetic.activation_group};
    device_->run(step);
    if (pending_) std::swap(h_, h_next_);
    std::swap(pre_, pre_next_);
    std::swap(post_, post_next_);
    std::swap(comb_, comb_next_);
    pending_ = combine_ = false;
}

void Streams::leave() {
    pending_ = true;
}

void Streams::leave(const ExpertOutput& parts) {
    parts_ = parts;
    pending_ = combine_ = true;
}

void Streams::settle() {
    const ModelConfig& c = *config_;
    if (!pending_) return;
    if (combine_) {
        device_->run(Combine{io_.y, parts_.partial, parts_.shared, n_, c.top_k, c.hidden});
    }
    device_->run(HyperExpand{h_, io_.y, post_, comb_, n_, c.hc, c.hidden});
    pending_ = combine_ = false;
}

void Streams::settle_at_home() {
    settle();
    assert(pre_ == buffers_.pre_a);  // a layer swaps them twice
    if (h_ == buffers_.h) return;
    const size_t count = static_cast<size_t>(n_) * config_->hc * config_->hidden;
    device_->copy(buffers_.h, h_, count * sizeof(bf16));
    std::swap(h_, h_next_);
}

void Streams::collapse(const HyperWeights* own, float* own_pre) {
    const ModelConfig& c = *config_;
    if (own) {
        HyperMix mix{};
        mix.pre = own_pre;
        mix.h = h_;
        mix.fn = own->fn;
        mix.base = own->base;
        mix.scale = own->scale;
        mix.n = n_;
        mix.hc = c.hc;
        mix.dim = c.hidden;
        mix.eps = c.norm_eps;
        mix.hc_eps = c.hc_eps;
        device_->run(mix);
    }
    device_->run(HyperCollapse{io_.collapsed, own ? own_pre : pre_, h_, n_, c.hc, c.hidden});
}

}  // namespace sluice
