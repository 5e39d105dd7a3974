#include "engine/prompt_cache/memory_snapshots.h"

#include <doctest/doctest.h>

namespace sluice::test {
namespace {

SharedSnapshot of_size(size_t bytes) {
    return std::make_shared<const std::vector<std::byte>>(bytes);
}

SnapshotKey key(int32_t tokens) {
    return {tokens, static_cast<uint64_t>(tokens)};
}

}  // namespace

TEST_CASE("the least recently used snapshot goes first") {
    MemorySnapshots memory(100);
    for (int32_t i = 1; i <= 3; ++i) CHECK(memory.put(key(i), of_size(30)));
    CHECK(memory.use(key(1)) != nullptr);
    CHECK(memory.put(key(4), of_size(40)));
    CHECK(memory.bytes() == 100);
    CHECK(memory.keys() == std::vector{key(4), key(1), key(3)});
    CHECK(memory.use(key(2)) == nullptr);
    CHECK(memory.put(key(5), of_size(100)));
    CHECK(memory.keys() == std::vector{key(5)});
}

TEST_CASE("what is larger than the budget is not kept and displaces nothing") {
    MemorySnapshots memory(100);
    CHECK(memory.put(key(1), of_size(60)));
    CHECK(!memory.put(key(2), of_size(101)));
    CHECK(!memory.make_room(101));
    CHECK(memory.keys() == std::vector{key(1)});
    MemorySnapshots none(0);
    CHECK(!none.put(key(1), of_size(1)));
    CHECK(none.bytes() == 0);
}

TEST_CASE("the same key again replaces its snapshot") {
    MemorySnapshots memory(100);
    CHECK(memory.put(key(1), of_size(60)));
    CHECK(memory.put(key(1), of_size(90)));
    CHECK(memory.bytes() == 90);
    CHECK(memory.use(key(1))->size() == 90);
    memory.remove(key(1));
    memory.remove(key(7));
    CHECK(memory.bytes() == 0);
    CHECK(memory.keys().empty());
}

TEST_CASE("a snapshot that is still being written stays") {
    MemorySnapshots memory(100);
    SharedSnapshot writing = of_size(50);
    CHECK(memory.put(key(1), writing));
    CHECK(memory.put(key(2), of_size(50)));
    CHECK(memory.put(key(3), of_size(40)));  // takes the place of 2
    CHECK(memory.keys() == std::vector{key(3), key(1)});
    CHECK(!memory.put(key(4), of_size(60)));
    CHECK(memory.keys() == std::vector{key(3), key(1)});
    writing.reset();
    CHECK(memory.put(key(4), of_size(60)));
    CHECK(memory.keys() == std::vector{key(4), key(3)});
}

}  // namespace sluice::test
