#include "kernels/selftest/selftest.h"

#include "io/format.h"
#include "io/text.h"
#include "kernels/selftest/selftest_case.h"

namespace sluice {
namespace {

using namespace selftest_detail;

constexpr size_t area_bytes = 448ull << 20;

float value_at(const std::vector<std::byte>& bytes, Values kind, size_t i) {
    if (kind == Values::halves) {
        bf16 h;
        std::memcpy(&h, bytes.data() + i * 2, 2);
        return to_float(h);
    }
    float f;
    std::memcpy(&f, bytes.data() + i * 4, 4);
    return f;
}

// Mean square error over mean square; infinity for any NaN or infinity that the reference does not
// have at the same place.
double distance(const std::vector<std::byte>& got, const std::vector<std::byte>& want,
                Values kind) {
    if (kind == Values::bits) {
        size_t wrong = 0;
        for (size_t i = 0; i < want.size(); ++i) wrong += got[i] != want[i];
        return double(wrong);
    }
    size_t count = want.size() / (kind == Values::halves ? 2 : 4);
    double error = 0, square = 0;
    for (size_t i = 0; i < count; ++i) {
        double g = value_at(got, kind, i), w = value_at(want, kind, i);
        if (!std::isfinite(w) && !(std::isnan(w) && std::isnan(g)) && g != w) return INFINITY;
        if (!std::isfinite(w)) continue;
        if (!std::isfinite(g)) return INFINITY;
        error += (g - w) * (g - w);
        square += w * w;
    }
    return error == 0 ? 0 : error / square;
}

Result<std::vector<std::byte>> run_once(Backend& backend, std::span<std::byte> memory,
                                        const Case& c, int32_t n, const SelftestOptions& options) {
    Arena area(memory);
    DevicePlace place(backend, area);
    std::vector<std::byte> out;
    c.device(place, n, out);
    if (auto error = place.error()) return within(c.name, *error);
    if (c.name == options.break_operation && !out.empty())
        out[out.size() / 2 | 3] ^= std::byte{0x40};  // a bit of the exponent, whatever the type
    return out;
}

Result<SelftestRow> try_case(Backend& backend, std::span<std::byte> memory, const Case& c,
                             const SelftestOptions& options) {
    int32_t most = std::min(c.rows_max, options.rows_max);
    SelftestRow row{c.name, most, 0, c.limit, true, {}};
    auto worse = [&](std::string why) {
        row.pass = false;
        if (row.why.empty()) row.why = std::move(why);
    };
    std::vector<std::byte> largest;
    for (int32_t n : {1024, 300, 65, 17, 5, 1}) {
        if (n > most) continue;
        HostPlace host;
        std::vector<std::byte> want, first;
        if (n == std::max(most, 1) || largest.empty() || !c.rowwise) c.reference(host, n, want);
        for (int32_t i = 0; i < options.repeats; ++i) {
            auto out = run_once(backend, memory, c, n, options);
            if (!out) return tl::unexpected<Error>(out.error());
            if (i == 0)
                first = std::move(*out);
            else if (*out != first)
                worse(cat("bits differ between repeats at ", n, " rows"));
        }
        if (!want.empty()) {
            double error = first.size() == want.size() ? distance(first, want, c.values) : INFINITY;
            row.error = std::max(row.error, error);
            if (!(error <= c.limit))
                worse(c.values == Values::bits
                          ? cat(int64_t(error), " bytes differ from the reference at ", n, " rows")
                          : cat("too far from the reference at ", n, " rows"));
        }
        if (largest.empty())
            largest = first;
        else if (c.rowwise && !std::equal(first.begin(), first.end(), largest.begin()))
            worse(cat("a row's bits depend on the number of rows (", n, ")"));
    }
    return row;
}

}  // namespace

Result<std::vector<SelftestRow>> selftest(Backend& backend, const SelftestOptions& options) {
    Shapes largest;
    largest.n = 1024;
    largest.dim = 5120;
    largest.inner = 256;
    largest.experts = 384;
    largest.index_rows = 2048;
    largest.window = 128;
    largest.attended_rows = 512;
    largest.head_dim = 512;
    largest.heads = 64;
    largest.group_rank = 32;
    if (auto reserved = backend.reserve(largest); !reserved)
        return tl::unexpected<Error>(reserved.error());
    auto memory = backend.allocate(area_bytes, "the self-test");
    if (!memory) return tl::unexpected<Error>(memory.error());
    std::vector<SelftestRow> rows;
    auto cases = dense_cases();
    for (auto& c : sparse_cases()) cases.push_back(std::move(c));
    for (auto& c : chain_cases()) cases.push_back(std::move(c));
    for (const auto& c : cases) {
        auto row = try_case(backend, {*memory, area_bytes}, c, options);
        if (!row) return tl::unexpected<Error>(row.error());
        rows.push_back(std::move(*row));
    }
    return rows;
}

bool passed(const std::vector<SelftestRow>& rows) {
    for (const auto& row : rows)
        if (!row.pass) return false;
    return !rows.empty();
}

std::string table(const std::vector<SelftestRow>& rows) {
    std::string out;
    for (const auto& row : rows) {
        out +=
            formatted("{:<28} up to {:4} rows  error {:8.1e}  limit {:7.0e}  {}{}\n", row.operation,
                      row.rows, row.error, row.limit, row.pass ? "ok" : "WRONG: ", row.why);
    }
    return out;
}

}  // namespace sluice
