// Loading the dense weights: the right bytes arrive on a device, whatever staging memory is used
// and however late the uploads finish.
#include "engine/model/weights.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>

#include "engine/load/load.h"
#include "engine/load/read_ring.h"
#include "tests/support/device_like.h"
#include "tests/support/models.h"

namespace sluice::test {
namespace {

constexpr size_t least_staging = size_t{512} << 10;  // the least that load_weights() uses

// A device that reads the host memory of an upload only when it is waited for or has been asked
// about three times, so that memory that is reused too early is noticed.
class LateUploads final : public ForwardingBackend {
 public:
    LateUploads() : ForwardingBackend(std::make_unique<DeviceLike>(uint64_t{64} << 20)) {}

    void upload_beside(void* device, const void* host, size_t bytes) override {
        from_.push_back(static_cast<const std::byte*>(host));
        late_.push_back({device, host, bytes});
        late_most = std::max(late_most, late_.size());
    }
    uint64_t mark_uploads() override { return done_ + late_.size(); }
    bool uploads_done(uint64_t mark) override {
        if (mark > done_ && ++asked_ % 3 == 0) finish(mark);
        return mark <= done_;
    }
    Result<void> wait_uploads(uint64_t mark) override {
        finish(mark);
        return {};
    }
    Result<void> synchronize() override {
        finish(done_ + late_.size());
        return ForwardingBackend::synchronize();
    }
    bool all_from(std::span<const std::byte> memory) const {
        return !from_.empty() && std::all_of(from_.begin(), from_.end(), [&](const std::byte* at) {
            return at >= memory.data() && at < memory.data() + memory.size();
        });
    }
    size_t late() const { return late_.size(); }

    size_t late_most = 0;

 private:
    struct Upload {
        void* device;
        const void* host;
        size_t bytes;
    };
    void finish(uint64_t mark) {
        for (; done_ < mark; done_++, late_.pop_front()) {
            const Upload& upload = late_.front();
            ForwardingBackend::upload(upload.device, upload.host, upload.bytes);
        }
    }

    std::deque<Upload> late_;
    std::vector<const std::byte*> from_;
    uint64_t done_ = 0, asked_ = 0;
};

// The dense weights of a model, through `staging` to `backend`.
struct Load {
    Loaded loaded;
    std::vector<TensorSpec> specs;
    PageBuffer embedding;
    Result<LoadReport> report = LoadReport{};

    Load(Backend& backend, std::span<std::byte> staging, const LoadControl& control) {
        auto described = describe_model(model_options("dsv41-tiny"), loaded);
        REQUIRE(described);
        specs = std::move(described->specs);
        auto ring = open_read_ring(loaded.runtime.checkpoint, loaded.runtime.options);
        REQUIRE(ring);
        auto memory = PageBuffer::create(embedding_bytes(specs), "embedding");
        REQUIRE(memory);
        embedding = std::move(*memory);
        report = load_weights(loaded.runtime.checkpoint, specs, *ring->ring, backend,
                              embedding.span(), staging, control);
    }
};

std::vector<char> in_file(const Checkpoint& checkpoint, const std::string& name) {
    const Tensor* tensor = checkpoint.find(name);
    REQUIRE(tensor);
    std::ifstream file(checkpoint.shards()[tensor->shard].path(), std::ios::binary);
    std::vector<char> bytes(tensor->bytes);
    file.seekg(static_cast<std::streamoff>(tensor->offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(file);
    return bytes;
}

// The tensors whose bytes differ from their file.
std::vector<std::string> different(const Load& load, Backend& backend) {
    std::vector<std::string> names;
    size_t seen = 0;
    for (const TensorSpec& spec : load.specs) {
        if (spec.home != Home::dense && spec.home != Home::embedding) continue;
        const void* at = std::visit(
            [](auto address) -> const void* {
                if constexpr (std::is_same_v<decltype(address), std::monostate>)
                    return nullptr;
                else
                    return *address;
            },
            spec.address);
        if (at == nullptr) continue;
        ++seen;
        const std::vector<char> want = in_file(load.loaded.runtime.checkpoint, spec.name);
        std::vector<char> got(want.size());
        if (spec.home == Home::embedding) {
            std::memcpy(got.data(), at, got.size());
        } else {
            REQUIRE(backend.download(got.data(), at, got.size()));
        }
        if (got != want) names.push_back(spec.name);
    }
    CHECK(seen > 100);
    return names;
}

}  // namespace

TEST_CASE("weights: staging memory is not reused before its uploads are done") {
    for (size_t bytes : {least_staging, least_staging * 5 / 2, size_t{32} << 20, size_t{96} << 20,
                         least_staging - 1, size_t{0}}) {
        CAPTURE(bytes);
        PageBuffer memory;
        if (bytes) memory = std::move(*PageBuffer::create(bytes, "staging"));
        const auto staging = memory.span().first(bytes);
        LateUploads backend;
        const Load load(backend, staging, LoadControl());
        REQUIRE(load.report);
        CHECK(backend.late() == 0);
        CHECK(backend.late_most > 1);
        CHECK(backend.all_from(staging) == (bytes >= least_staging));
        CHECK(different(load, backend).empty());
    }
}

TEST_CASE("weights: a cancelled load leaves no upload behind") {
    auto memory = PageBuffer::create(least_staging, "staging");
    REQUIRE(memory);
    LateUploads backend;
    std::atomic<bool> cancel = false;
    const LoadControl control{
        .progress = [&](uint64_t done, uint64_t all) { cancel = done > all / 2; },
        .cancel = &cancel};
    const Load load(backend, memory->span(), control);
    REQUIRE(!load.report);
    CHECK(load.report.error().code == Code::interrupted);
    CHECK(backend.late_most > 0);
    CHECK(backend.late() == 0);
}

}  // namespace sluice::test
