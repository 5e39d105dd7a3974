#include "cache/row_cache.h"

#include <cstring>
#include <vector>

#include "io/text.h"

namespace sluice {
namespace {

constexpr uint32_t none = UINT32_MAX;
constexpr uint64_t reader_row_bytes = 48;  // see io/checkpoint/row_reader.h

uint32_t buckets_for(uint32_t capacity) {
    uint32_t buckets = 1;
    while (buckets < capacity && buckets < (1u << 31)) buckets *= 2;
    return buckets;
}

}  // namespace

// Kept rows are in an array with a clock hand: a row that was used since the hand last passed it
// stays for another round. Rows are found by chained hashing.
struct RowCache::Impl {
    Impl(ReadRing& ring, const RowTable& table, uint32_t capacity, uint32_t request_max)
        : table_(table),
          reader_(ring, table, request_max),
          request_max_(request_max),
          rows_(capacity),
          bytes_(uint64_t{capacity} * row_bytes()),
          first_(buckets_for(capacity), none),
          read_codes_(uint64_t{request_max} * table.codes_bytes),
          read_scales_(uint64_t{request_max} * table.scales_bytes) {
        missing_.reserve(request_max);
        place_.reserve(request_max);
    }

    struct Row {
        uint64_t id;
        uint32_t next = none;  // in the bucket
        bool kept = false;
        bool used = false;
    };

    uint64_t row_bytes() const { return uint64_t{table_.codes_bytes} + table_.scales_bytes; }
    uint8_t* kept_bytes(uint32_t number) { return bytes_.data() + number * row_bytes(); }
    uint32_t& bucket(uint64_t id) {
        return first_[(id * 0x9e3779b97f4a7c15u) >> 32 & (first_.size() - 1)];
    }
    uint32_t find(uint64_t id) {
        uint32_t number = bucket(id);
        while (number != none && rows_[number].id != id) number = rows_[number].next;
        return number;
    }
    uint32_t make_room() {
        while (rows_[hand_].kept && rows_[hand_].used) {
            rows_[hand_].used = false;
            step();
        }
        const uint32_t number = hand_;
        step();
        if (rows_[number].kept) {
            uint32_t* link = &bucket(rows_[number].id);
            while (*link != number) link = &rows_[*link].next;
            *link = rows_[number].next;
        }
        return number;
    }
    void step() { hand_ = hand_ + 1 == rows_.size() ? 0 : hand_ + 1; }
    void keep(uint64_t id, const uint8_t* codes, const uint8_t* scales) {
        if (rows_.empty() || find(id) != none) return;
        const uint32_t number = make_room();
        std::memcpy(kept_bytes(number), codes, table_.codes_bytes);
        std::memcpy(kept_bytes(number) + table_.codes_bytes, scales, table_.scales_bytes);
        rows_[number] = {id, bucket(id), true, false};
        bucket(id) = number;
    }

    RowTable table_;
    RowReader reader_;
    uint32_t request_max_;
    std::vector<Row> rows_;       // [capacity]
    std::vector<uint8_t> bytes_;  // [capacity][codes_bytes + scales_bytes]
    std::vector<uint32_t> first_;
    uint32_t hand_ = 0;

    // The request.
    bool waiting_ = false;
    std::vector<uint64_t> missing_;
    std::vector<uint32_t> place_;  // of each missing row in the request
    std::vector<uint8_t> read_codes_, read_scales_;
    uint8_t* codes_ = nullptr;
    uint8_t* scales_ = nullptr;
    uint64_t hits_ = 0;
    uint64_t asked_ = 0;
};

RowCache::RowCache(ReadRing& ring, const RowTable& table, uint32_t capacity, uint32_t request_max)
    : impl_(std::make_unique<Impl>(ring, table, capacity, request_max)) {}
RowCache::~RowCache() = default;

Result<void> RowCache::request(std::span<const uint64_t> rows, uint8_t* codes, uint8_t* scales) {
    Impl& impl = *impl_;
    if (impl.waiting_)
        return fail(Code::usage, "rows requested before wait() was called for the previous ones");
    if (rows.size() > impl.request_max_) {
        return fail(Code::usage, cat(rows.size(), " rows requested at once, but at most ",
                                     impl.request_max_, " are allowed"));
    }
    const RowTable& table = impl.table_;
    impl.missing_.clear();
    impl.place_.clear();
    for (uint64_t row : rows) {
        if (row >= table.rows) {
            return fail(Code::usage,
                        cat("row ", row, " requested, but the table has only ", table.rows));
        }
    }
    for (size_t i = 0; i < rows.size(); ++i) {
        const uint32_t number = impl.find(rows[i]);
        if (number == none) {
            impl.missing_.push_back(rows[i]);
            impl.place_.push_back(static_cast<uint32_t>(i));
            continue;
        }
        impl.rows_[number].used = true;
        const uint8_t* kept = impl.kept_bytes(number);
        std::memcpy(codes + i * table.codes_bytes, kept, table.codes_bytes);
        std::memcpy(scales + i * table.scales_bytes, kept + table.codes_bytes, table.scales_bytes);
    }
    if (!impl.missing_.empty()) {
        auto asked =
            impl.reader_.request(impl.missing_, impl.read_codes_.data(), impl.read_scales_.data());
        if (!asked) return asked;
    }
    impl.asked_ += rows.size();
    impl.hits_ += rows.size() - impl.missing_.size();
    impl.codes_ = codes;
    impl.scales_ = scales;
    impl.waiting_ = true;
    return {};
}

Result<void> RowCache::wait() {
    Impl& impl = *impl_;
    if (!impl.waiting_) return {};
    impl.waiting_ = false;
    if (impl.missing_.empty()) return {};
    if (auto read = impl.reader_.wait(); !read) return read;
    const RowTable& table = impl.table_;
    for (size_t i = 0; i < impl.missing_.size(); ++i) {
        const uint8_t* codes = impl.read_codes_.data() + i * table.codes_bytes;
        const uint8_t* scales = impl.read_scales_.data() + i * table.scales_bytes;
        std::memcpy(impl.codes_ + uint64_t{impl.place_[i]} * table.codes_bytes, codes,
                    table.codes_bytes);
        std::memcpy(impl.scales_ + uint64_t{impl.place_[i]} * table.scales_bytes, scales,
                    table.scales_bytes);
        impl.keep(impl.missing_[i], codes, scales);
    }
    return {};
}

uint64_t RowCache::hits() const {
    return impl_->hits_;
}
uint64_t RowCache::asked() const {
    return impl_->asked_;
}
uint64_t RowCache::bytes_read() const {
    return impl_->reader_.bytes_read();
}

uint64_t RowCache::memory(const RowTable& table, uint32_t capacity, uint32_t request_max) {
    const uint64_t row = uint64_t{table.codes_bytes} + table.scales_bytes;
    return capacity * (row + sizeof(Impl::Row)) + uint64_t{buckets_for(capacity)} * 4 +
           request_max * (row + sizeof(uint64_t) + sizeof(uint32_t) + reader_row_bytes);
}

}  // namespace sluice
