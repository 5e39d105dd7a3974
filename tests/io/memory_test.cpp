#include "io/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <utility>

using namespace sluice;

TEST_CASE("a page buffer is aligned, zeroed, made of whole pages, and movable") {
    auto made = PageBuffer::create(5000, "a test");
    REQUIRE(made);
    PageBuffer buffer = std::move(*made);
    CHECK(buffer.size() == 8192);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % page_size == 0);
    CHECK(std::all_of(buffer.data(), buffer.data() + buffer.size(),
                      [](std::byte b) { return b == std::byte{0}; }));
    buffer.data()[8191] = std::byte{1};
    PageBuffer other = std::move(buffer);
    CHECK(buffer.data() == nullptr);
    CHECK(buffer.size() == 0);
    CHECK(other.span()[8191] == std::byte{1});
    other = PageBuffer{};
    CHECK(PageBuffer::create(0, "nothing")->size() == 0);
}

TEST_CASE("memory that cannot be allocated is an error that names its purpose") {
    for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 55}) {
        const auto buffer = PageBuffer::create(bytes, "expert slots");
        REQUIRE(!buffer);
        CHECK(buffer.error().code == Code::no_memory);
        CHECK(buffer.error().message.find("expert slots") != std::string::npos);
    }
}

TEST_CASE("an arena hands out aligned pieces until it is full") {
    auto buffer = PageBuffer::create(page_size, "a test");
    REQUIRE(buffer);
    Arena arena(buffer->span());
    std::byte* first = arena.take(1);
    std::byte* second = arena.take(100, 256);
    CHECK(first == buffer->data());
    CHECK(second == buffer->data() + 256);
    CHECK(arena.used() == 356);
    CHECK(arena.take(page_size - 384 + 1) == nullptr);
    CHECK(arena.take(std::numeric_limits<size_t>::max()) == nullptr);
    CHECK(arena.used() == 356);
    CHECK(arena.take(page_size - 384) == buffer->data() + 384);
    CHECK(arena.take(1) == nullptr);
    CHECK(arena.take(0, 1) != nullptr);
    CHECK(Arena().take(1) == nullptr);
}

TEST_CASE("an arena aligns addresses wherever its memory begins") {
    auto buffer = PageBuffer::create(page_size, "a test");
    REQUIRE(buffer);
    Arena arena(buffer->span().subspan(3));
    std::byte* piece = arena.take(8, 64);
    CHECK(reinterpret_cast<uintptr_t>(piece) % 64 == 0);
    CHECK(piece == buffer->data() + 64);
}

TEST_CASE("rounding") {
    CHECK(round_up(0, 4096) == 0);
    CHECK(round_up(1, 4096) == 4096);
    CHECK(round_up(4096, 4096) == 4096);
    CHECK(round_down(4095, 4096) == 0);
    CHECK(round_down(8191, 4096) == 4096);
}
