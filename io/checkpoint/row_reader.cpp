#include "io/checkpoint/row_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <vector>

#include "io/memory.h"
#include "io/text.h"

namespace sluice {
namespace {

constexpr uint64_t stage_bytes_min = 64u << 10;

// Bytes of a row in the file, and where they go.
struct Piece {
    uint64_t offset;
    uint32_t length;
    uint8_t* to;
};

// One read in flight: an aligned run of blocks that holds pieces [first, last).
struct Stage {
    std::byte* memory;
    uint64_t offset;
    size_t first, last;
    uint32_t needed;
    // The last piece may extend beyond this run; its first `cut` bytes are here.
    uint32_t cut;
    Piece cut_piece;
};

}  // namespace

struct RowReader::Impl final : ReadClient {
    Impl(ReadRing& its_ring, const RowTable& its_table, uint32_t rows_max);

    Result<void> request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales);
    void queue_reads();
    void plan(Stage& stage);
    void read_done(uint64_t tag, std::optional<Error> error) override;
    void copy_out(const Stage& stage, const Piece& piece) const;
    uint64_t row_at(uint64_t offset) const;

    ReadRing& ring;
    const RowTable table;
    const uint32_t alignment;
    const uint64_t stage_bytes;
    const uint32_t rows_max;
    PageBuffer memory;
    std::optional<Error> broken;  // construction failed: reported by request()
    std::vector<Piece> pieces;    // of the request, by offset
    size_t next = 0;              // first piece that is not planned yet
    std::vector<Stage> stages;
    std::vector<uint32_t> idle;  // stages
    uint32_t in_flight = 0;
    std::optional<Error> error;  // the first of this request
    uint64_t bytes_read = 0;
};

RowReader::Impl::Impl(ReadRing& its_ring, const RowTable& its_table, uint32_t most)
    : ring(its_ring),
      table(its_table),
      alignment(table.file->alignment()),
      stage_bytes(row_stage_bytes(table)),
      rows_max(most) {
    const uint32_t count = std::max(1u, std::min(ring.depth() / 2, 2 * rows_max));
    auto buffer = PageBuffer::create(count * stage_bytes, "row reads");
    if (!buffer) {
        broken = std::move(buffer).error();
        return;
    }
    memory = std::move(*buffer);
    pieces.reserve(2ull * rows_max);
    for (uint32_t i = 0; i < count; ++i) {
        stages.push_back({memory.data() + i * stage_bytes, 0, 0, 0, 0, 0, {}});
        idle.push_back(i);
    }
}

Result<void> RowReader::Impl::request(std::span<const uint64_t> rows, uint8_t* codes,
                                      uint8_t* scales) {
    if (broken) return tl::unexpected(*broken);
    assert(next == pieces.size() && in_flight == 0 && rows.size() <= rows_max);
    pieces.clear();
    next = 0;
    error.reset();
    for (size_t i = 0; i < rows.size(); ++i) {
        const uint64_t row = rows[i];
        assert(row < table.rows);
        pieces.push_back({table.codes_offset + row * table.codes_bytes, table.codes_bytes,
                          codes + i * table.codes_bytes});
        pieces.push_back({table.scales_offset + row * table.scales_bytes, table.scales_bytes,
                          scales + i * table.scales_bytes});
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
    queue_reads();
    return ring.submit();
}

// Takes as many of the next pieces as lie in one run of adjacent blocks that fits into a stage.
// Runs end at block boundaries, and pieces are sorted and disjoint, so no block is read twice.
void RowReader::Impl::plan(Stage& stage) {
    stage.offset = round_down(pieces[next].offset, alignment);
    stage.first = next;
    stage.cut = 0;
    const uint64_t limit = stage.offset + stage_bytes;
    uint64_t end = stage.offset;
    while (next < pieces.size() && round_down(pieces[next].offset, alignment) <= end) {
        Piece& piece = pieces[next];
        if (piece.offset >= limit) break;
        if (piece.offset + piece.length > limit) {
            stage.cut = static_cast<uint32_t>(limit - piece.offset);
            stage.cut_piece = {piece.offset, stage.cut, piece.to};
            piece = {limit, piece.length - stage.cut, piece.to + stage.cut};
            end = limit;
            break;
        }
        end = std::max(end, round_up(piece.offset + piece.length, alignment));
        ++next;
    }
    stage.last = next;
    stage.needed = static_cast<uint32_t>(std::min(end, table.file->size()) - stage.offset);
    bytes_read += stage.needed;
    ring.queue({table.file, stage.offset, stage.memory, static_cast<uint32_t>(end - stage.offset),
                stage.needed, this, static_cast<uint64_t>(&stage - stages.data())});
}

void RowReader::Impl::queue_reads() {
    while (next < pieces.size() && !idle.empty() && ring.free() > 0) {
        Stage& stage = stages[idle.back()];
        idle.pop_back();
        ++in_flight;
        plan(stage);
    }
}

uint64_t RowReader::Impl::row_at(uint64_t offset) const {
    const uint64_t codes_end = table.codes_offset + table.rows * table.codes_bytes;
    const bool in_codes = offset >= table.codes_offset && offset < codes_end;
    return in_codes ? (offset - table.codes_offset) / table.codes_bytes
                    : (offset - table.scales_offset) / table.scales_bytes;
}

void RowReader::Impl::copy_out(const Stage& stage, const Piece& piece) const {
    std::memcpy(piece.to, stage.memory + (piece.offset - stage.offset), piece.length);
}

void RowReader::Impl::read_done(uint64_t tag, std::optional<Error> failure) {
    const Stage& stage = stages[tag];
    --in_flight;
    idle.push_back(static_cast<uint32_t>(tag));
    if (failure) {
        const Piece& piece = stage.first < stage.last ? pieces[stage.first] : stage.cut_piece;
        if (!error) error = within(cat("row ", row_at(piece.offset)), std::move(*failure)).value();
        next = pieces.size();  // the rest of the request need not be read
    } else {
        for (size_t i = stage.first; i < stage.last; ++i) copy_out(stage, pieces[i]);
        if (stage.cut) copy_out(stage, stage.cut_piece);
    }
    queue_reads();
}

uint64_t row_stage_bytes(const RowTable& table) {
    return round_up(stage_bytes_min, table.file ? table.file->alignment() : 1);
}

RowReader::RowReader(ReadRing& ring, const RowTable& table, uint32_t rows_max)
    : impl_(std::make_unique<Impl>(ring, table, rows_max)) {}

RowReader::~RowReader() {
    impl_->next = impl_->pieces.size();
    while (impl_->in_flight > 0) {
        if (!impl_->ring.reap(true)) break;
    }
}

Result<void> RowReader::request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales) {
    return impl_->request(rows, codes, scales);
}

Result<void> RowReader::wait() {
    Impl& impl = *impl_;
    while (impl.in_flight > 0 || impl.next < impl.pieces.size()) {
        impl.queue_reads();
        if (auto reaped = impl.ring.reap(true); !reaped) {
            return tl::unexpected(std::move(reaped).error());
        }
    }
    if (!impl.error) return {};
    Error error = std::move(*impl.error);
    impl.error.reset();
    return tl::unexpected(std::move(error));
}

uint64_t RowReader::bytes_read() const {
    return impl_->bytes_read;
}

}  // namespace sluice
