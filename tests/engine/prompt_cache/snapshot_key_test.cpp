#include "engine/prompt_cache/snapshot_key.h"

#include <doctest/doctest.h>

#include <numeric>

namespace sluice::test {
namespace {

std::vector<int32_t> count_to(int32_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), 5);
    return ids;
}

SnapshotKey key_of_first(const std::vector<int32_t>& ids, size_t count) {
    return key_of(std::span(ids).first(count));
}

}  // namespace

TEST_CASE("prefixes of a prompt are found longest first and never the whole prompt") {
    const auto ids = count_to(100);
    auto other = ids;
    other[40] = 1;
    const std::vector<SnapshotKey> stored = {
        key_of_first(ids, 30),  key_of_first(ids, 99),   key_of_first(ids, 100),
        key_of_first(ids, 60),  key_of_first(other, 50), key_of_first(ids, 60),
        key_of_first(ids, 10),  key_of_first(other, 40), key_of(count_to(130))};
    const auto found = prefixes_among(stored, ids, 10);
    REQUIRE(found.size() == 4);
    CHECK(found[0] == key_of_first(ids, 99));
    CHECK(found[1] == key_of_first(ids, 60));
    CHECK(found[2] == key_of_first(ids, 40));
    CHECK(found[3] == key_of_first(ids, 30));
    CHECK(prefixes_among(stored, ids, 99).empty());
    CHECK(prefixes_among({}, ids, 0).empty());
    CHECK(prefixes_among(stored, {}, 0).empty());
    CHECK(prefixes_among({{0, key_of({}).hash}, {-4, 7}}, ids, -5).empty());
}

TEST_CASE("the name of a snapshot's file is read back and no other name is") {
    const SnapshotKey key{1234, 0x00ab'cdef'0123'4567};
    CHECK(file_name(key) == "1234-00abcdef01234567.snapshot");
    REQUIRE(parse_file_name(file_name(key)));
    CHECK(*parse_file_name(file_name(key)) == key);
    for (const char* name :
         {"", "1234", "1234-", "1234-00abcdef01234567", "1234-00ABCDEF01234567.snapshot",
          "1234-abcdef01234567.snapshot", "01234-00abcdef01234567.snapshot",
          "0-00abcdef01234567.snapshot", "-1-00abcdef01234567.snapshot",
          "1234-00abcdef01234567.snapshot.AbCdEf", "1234-00abcdef01234567.snapshots",
          "99999999999-00abcdef01234567.snapshot", "+1-00abcdef01234567.snapshot"}) {
        CAPTURE(name);
        CHECK(!parse_file_name(name));
    }
}

}  // namespace sluice::test
