#include "io/checksum.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/support/temp_folder.h"

using namespace sluice;

TEST_CASE("XXH3 of known inputs") {
    CHECK(checksum_text(checksum("", 0)) == "2d06800538d394c2");
    CHECK(checksum_text(checksum("abc", 3)) == "78af5f94892f3950");
    CHECK(checksum_text(1) == "0000000000000001");
}

TEST_CASE("pieces have the same checksum as the whole") {
    const std::string bytes = random_bytes(100'000, 1);
    Checksum streaming;
    CHECK(streaming.value() == checksum("", 0));
    std::mt19937 random(2);
    for (size_t at = 0; at < bytes.size();) {
        const size_t piece = std::min<size_t>(random() % 3000, bytes.size() - at);
        streaming.add(bytes.data() + at, piece);
        at += piece;
    }
    CHECK(streaming.value() == checksum(bytes.data(), bytes.size()));
    streaming.add("x", 1);
    CHECK(streaming.value() != checksum(bytes.data(), bytes.size()));
}
