// Source of reference.h: IndexTopk.
#include <algorithm>
#include <vector>

#include "kernels/reference/blocks.h"
#include "kernels/reference/reference.h"

namespace sluice::reference {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Scores of the visible rows of query i; a NaN counts as -inf.
std::vector<float> scores_of(const IndexTopk& op, int32_t i, int32_t visible) {
    std::vector<float> scores(visible);
    for (int32_t t = 0; t < visible; ++t) {
        double sum = 0;
        for (int32_t h = 0; h < op.heads; ++h) {
            const bf16* q = op.q + (size_t(i) * op.heads + h) * op.dim;
            float s = round_bf16(float(dot(q, op.keys + size_t(t) * op.dim, op.dim)));
            float w = to_float(op.w[size_t(i) * op.heads + h]);
            sum += round_bf16((s > 0 || s != s ? s : 0) * w);
        }
        float score = round_bf16(float(sum));
        scores[t] = score != score ? -infinity : score;
    }
    return scores;
}

// The `count` best of `items`; among equals, the lower number is first.
std::vector<int32_t> best(std::vector<int32_t> items, const std::vector<float>& score,
                          int32_t count) {
    std::stable_sort(items.begin(), items.end(),
                     [&](int32_t a, int32_t b) { return score[a] > score[b]; });
    if (items.size() > size_t(count)) items.resize(count);
    return items;
}

std::vector<int32_t> range(int32_t count) {
    std::vector<int32_t> all(count);
    for (int32_t t = 0; t < count; ++t) all[t] = t;
    return all;
}

void publish(const IndexTopk& op, const std::vector<float>& scores, uint8_t* marks) {
    std::fill(marks, marks + op.blocks_max, 0);
    int32_t blocks = (int32_t(scores.size()) + op.block - 1) / op.block;
    std::vector<float> block_score(blocks, -infinity);
    for (size_t t = 0; t < scores.size(); ++t)
        block_score[t / op.block] = std::max(block_score[t / op.block], scores[t]);
    if (blocks > 0) block_score[blocks - 1] = infinity;
    for (int32_t b : best(range(blocks), block_score, op.keep))
        if (block_score[b] > -infinity) marks[b] = 1;
}

}  // namespace

void run(const IndexTopk& op) {
    for (int32_t i = 0; i < op.n; ++i) {
        int32_t visible = std::min((op.position + i + 1) / op.ratio, op.rows);
        std::vector<float> scores = scores_of(op, i, visible);
        if (op.scores) {
            float* out = op.scores + size_t(i) * op.rows;
            std::fill(std::copy(scores.begin(), scores.end(), out), out + op.rows, -infinity);
        }
        uint8_t* marks = op.candidates ? op.candidates + size_t(i) * op.blocks_max : nullptr;
        if (op.mode == Candidates::restrict && op.scores) {
            for (int32_t t = 0; t < visible; ++t)
                if (marks[t / op.block] == 0) op.scores[size_t(i) * op.rows + t] = -infinity;
        }
        if (op.mode == Candidates::publish) publish(op, scores, marks);
        std::vector<int32_t> rows = range(visible);
        if (visible > op.k) {
            if (op.mode == Candidates::restrict)
                std::erase_if(rows, [&](int32_t t) { return marks[t / op.block] == 0; });
            rows = best(rows, scores, op.k);
            std::sort(rows.begin(), rows.end());
        }
        int32_t* topk = op.topk + size_t(i) * op.k;
        std::fill(topk, topk + op.k, -1);
        std::copy(rows.begin(), rows.end(), topk);
    }
}

}  // namespace sluice::reference
