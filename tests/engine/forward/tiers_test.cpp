// What a run reads does not pass through the kernel's page cache.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <deque>

#include "io/memory.h"
#include "tests/support/models.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

// One shard of a copied checkpoint, and how much of it is in the page cache.
class CachedFile {
 public:
    explicit CachedFile(const std::filesystem::path& path)
        : fd_(::open(path.c_str(), O_RDONLY)), size_(std::filesystem::file_size(path)) {
        REQUIRE(fd_ >= 0);
    }
    ~CachedFile() { ::close(fd_); }
    CachedFile(const CachedFile&) = delete;
    CachedFile& operator=(const CachedFile&) = delete;

    void forget() const {
        REQUIRE(::fdatasync(fd_) == 0);
        REQUIRE(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED) == 0);
    }
    uint64_t bytes() const {
        void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
        REQUIRE(map != MAP_FAILED);
        std::vector<unsigned char> pages((size_ + page_size - 1) / page_size);
        REQUIRE(::mincore(map, size_, pages.data()) == 0);
        ::munmap(map, size_);
        uint64_t count = 0;
        for (unsigned char page : pages) count += page & 1;
        return count * page_size;
    }

 private:
    int fd_;
    size_t size_;
};

}  // namespace

TEST_CASE("a prompt and an answer leave the page cache alone") {
    TempFolder folder;
    const std::filesystem::path model = folder / "model";
    std::filesystem::copy(model_path("dsv41-tiny"), model,
                          std::filesystem::copy_options::recursive);
    EngineOptions options = model_options("dsv41-tiny");
    options.locations = {model.string()};
    options.cache_slots = 0;
    options.chunk = 32;
    auto engine = load_engine(options);
    if (engine->io_name().find("O_DIRECT") == std::string::npos) {
        MESSAGE("no direct reads here: " << engine->io_name());
        return;
    }
    std::deque<CachedFile> shards;
    for (const auto& file : std::filesystem::directory_iterator(model)) {
        if (file.path().extension() == ".safetensors") shards.emplace_back(file.path());
    }
    REQUIRE(shards.size() > 1);
    const auto cached = [&] {
        uint64_t sum = 0;
        for (const CachedFile& shard : shards) sum += shard.bytes();
        return sum;
    };
    for (const CachedFile& shard : shards) shard.forget();
    const uint64_t before = cached();
    const auto trace = read_trace(std::string(test::golden_folder) + "/dsv41-tiny-10.json");
    REQUIRE(trace);
    const std::span<const int32_t> ids(trace->prompt);
    auto session = open_session(*engine);
    REQUIRE(session->feed(ids.first(64)));
    for (size_t i = 64; i < 70; ++i) REQUIRE(session->feed(ids.subspan(i, 1)));
    const RunStats& stats = session->stats();
    CHECK(stats.expert_bytes > uint64_t{4} << 20);
    CHECK(cached() <= before);
}

}  // namespace sluice::test
