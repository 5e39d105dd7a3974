#include "io/ring/share_reads.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace sluice {

namespace {

// When all drives would be done if every copy in `used` took part and bytes could be divided
// freely: the time T with sum((T - waiting/rate) * rate) = total over the copies that are free
// before T.
double level(double total, std::span<const CopyState> copies, std::span<const bool> used) {
    double result = 0;
    // Copies that are busy longer take nothing, and without them T changes. Each round drops at
    // least one of them, so it settles after a few.
    std::array<bool, copies_max> in{};
    std::copy(used.begin(), used.end(), in.begin());
    for (size_t round = 0; round < copies.size(); ++round) {
        double rates = 0, bytes = total;
        for (size_t i = 0; i < copies.size(); ++i) {
            if (!in[i]) continue;
            rates += copies[i].bytes_s;
            bytes += static_cast<double>(copies[i].waiting);
        }
        result = bytes / rates;
        bool settled = true;
        for (size_t i = 0; i < copies.size(); ++i) {
            if (!in[i] || static_cast<double>(copies[i].waiting) / copies[i].bytes_s < result) {
                continue;
            }
            in[i] = settled = false;
        }
        if (settled) break;
    }
    return result;
}

}  // namespace

void share_bytes(uint64_t total, uint32_t alignment, uint64_t least,
                 std::span<const CopyState> copies, std::span<uint64_t> shares) {
    assert(!copies.empty() && copies.size() == shares.size() && copies.size() <= copies_max);
    std::array<bool, copies_max> used{};
    for (size_t i = 0; i < copies.size(); ++i) used[i] = copies[i].available;
    const std::span<const bool> using_now(used.data(), copies.size());
    for (size_t round = 0; round < copies.size(); ++round) {
        const double until = level(static_cast<double>(total), copies, using_now);
        size_t smallest = copies.size(), largest = copies.size();
        uint64_t sum = 0;
        for (size_t i = 0; i < copies.size(); ++i) {
            const double bytes =
                used[i] ? until * copies[i].bytes_s - static_cast<double>(copies[i].waiting) : 0;
            shares[i] = static_cast<uint64_t>(std::max(0.0, bytes)) / alignment * alignment;
            shares[i] = std::min(shares[i], total - sum);
            sum += shares[i];
            if (!used[i]) continue;
            if (largest == copies.size() || shares[i] > shares[largest]) largest = i;
            const bool little = shares[i] > 0 && shares[i] < least;
            if (little && (smallest == copies.size() || shares[i] < shares[smallest])) smallest = i;
        }
        shares[largest] += total - sum;  // the rest from rounding
        if (smallest == copies.size() || smallest == largest) return;
        used[smallest] = false;
    }
}

void cut_reads(std::span<const PlannedRead> reads, std::span<const uint64_t> shares,
               std::vector<CopyRead>& out) {
    uint32_t copy = 0;
    uint64_t left = shares[0];
    for (PlannedRead rest : reads) {
        while (rest.length > 0) {
            while (left == 0) left = shares[++copy];
            const PlannedRead piece = take_front(rest, left);
            if (piece.needed > 0) out.push_back({piece, copy});
            left -= piece.length;
        }
    }
}

}  // namespace sluice
