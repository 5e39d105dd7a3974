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
#include "tests/support/sim_ring.h"
#include "tests/support/temp_folder.h"

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

    Load(Backend& backend, std::span<std::byte> staging, const LoadControl& control,
         const std::string& model = "dsv41-tiny") {
        describe(model_options(model));
        auto opened = open_read_ring(loaded.runtime.checkpoint, loaded.runtime.options);
        REQUIRE(opened);
        run(*opened->ring, backend, staging, control);
    }
    // To be run() with a ring of the test's own.
    explicit Load(const EngineOptions& options) { describe(options); }

    void describe(const EngineOptions& options) {
        auto described = describe_model(options, loaded);
        if (!described) FAIL(described.error().message);
        specs = std::move(described->specs);
    }
    void run(ReadRing& ring, Backend& backend, std::span<std::byte> staging,
             const LoadControl& control) {
        auto memory = PageBuffer::create(host_bytes(specs), "embedding");
        REQUIRE(memory);
        embedding = std::move(*memory);
        report = load_weights(loaded.runtime.checkpoint, specs, ring, backend, embedding.span(),
                              staging, control);
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

// The scales of `file`, one for 128 x 128 values of a weight, as memory holds them: for 32 x 32.
// `weight`: rows and columns.
std::vector<char> in_tiles_of_32(const std::vector<char>& file, std::span<const uint64_t> weight) {
    const uint64_t columns = (weight[1] + 127) / 128;
    std::vector<char> out;
    for (uint64_t row = 0; row < weight[0]; row += 32) {
        for (uint64_t column = 0; column < weight[1]; column += 32) {
            out.push_back(file[row / 128 * columns + column / 128]);
        }
    }
    return out;
}

// The tensors whose bytes differ from their file.
std::vector<std::string> different(const Load& load, Backend& backend) {
    std::vector<std::string> names;
    size_t seen = 0;
    for (const TensorSpec& spec : load.specs) {
        if (spec.home != Home::dense && spec.home != Home::host) continue;
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
        std::vector<char> want = in_file(load.loaded.runtime.checkpoint, spec.name);
        // A scale stands behind its weight.
        if (spec.repeat > 1) want = in_tiles_of_32(want, (&spec - 1)->shape);
        std::vector<char> got(want.size());
        if (spec.home == Home::host) {
            std::memcpy(got.data(), at, got.size());
        } else {
            REQUIRE(backend.download(got.data(), at, got.size()));
        }
        if (got != want) names.push_back(spec.name);
    }
    CHECK(seen > 100);
    return names;
}

// A model and its mirror, one of them on a drive with larger blocks than those of this machine,
// in a simulated ring that refuses reads that are not whole blocks.
struct Mirrored {
    TempFolder mirror;
    std::unique_ptr<Load> load;
    std::unique_ptr<ReadRing> ring;

    Mirrored(uint32_t coarse, uint32_t block, std::optional<uint32_t> fails) {
        EngineOptions options = model_options("dsv41-tiny");
        link_files(options.locations.front(), mirror.path());
        options.mirrors = {mirror.path().string()};
        load = std::make_unique<Load>(options);
        Checkpoint& checkpoint = load->loaded.runtime.checkpoint;
        auto engine = std::make_unique<SimEngine>(7, SimFaults{.short_read = 0.1, .reorder = 0.5});
        if (fails) engine->fail(*fails);
        for (const uint32_t drive : {0u, 1u}) {
            const uint32_t own = checkpoint.shards().front().own_alignment();
            engine->set_block(drive, drive == coarse ? std::max(block, own) : own);
        }
        ring = std::make_unique<ReadRing>(std::move(engine), 32);
        for (size_t shard = 0; shard < checkpoint.shards().size(); ++shard) {
            // The checkpoint is this object's; it only shows its files as constant.
            const std::array<File*, 2> files{
                const_cast<File*>(&checkpoint.shards()[shard]),
                const_cast<File*>(&checkpoint.copies()[shard].front())};
            files[coarse]->raise_alignment(block);
            align_copies(files);
            for (const File* file : files) REQUIRE(ring->add_file(*file));
            ring->add_copies(std::array<const File*, 2>{files[0], files[1]});
        }
    }
};

}  // namespace

TEST_CASE("weights: copies on drives with different block sizes, all healthy or one failing") {
    auto memory = PageBuffer::create(least_staging, "staging");
    REQUIRE(memory);
    for (const uint32_t block : {4096u, 65536u}) {
        for (const uint32_t coarse : {0u, 1u}) {
            for (const std::optional<uint32_t> fails : {std::optional<uint32_t>(), {0u}, {1u}}) {
                CAPTURE(block);
                CAPTURE(coarse);
                CAPTURE(fails.value_or(2));
                DeviceLike backend(uint64_t{64} << 20);
                Mirrored model(coarse, block, fails);
                model.load->run(*model.ring, backend, memory->span(), LoadControl());
                if (!model.load->report) FAIL(model.load->report.error().message);
                CHECK(different(*model.load, backend).empty());
                for (const uint32_t drive : {0u, 1u}) {
                    CHECK(model.ring->drive_failed(drive) == (fails == drive));
                    CHECK((model.ring->drive(drive).bytes() > 0) == (fails != drive));
                }
            }
        }
    }
}

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

TEST_CASE("weights: scales of 128 x 128 values become those of 32 x 32, ragged tiles included") {
    for (size_t bytes : {least_staging, size_t{8} << 20}) {
        const PageBuffer memory = std::move(*PageBuffer::create(bytes, "staging"));
        LateUploads backend;
        const Load load(backend, memory.span(), LoadControl(), "dsv4-rand-a");
        REQUIRE(load.report);
        CHECK(different(load, backend).empty());
        const auto ragged =
            std::count_if(load.specs.begin(), load.specs.end(), [](const TensorSpec& spec) {
                return spec.repeat > 1 && spec.resident[0] % spec.repeat != 0;
            });
        CHECK(ragged >= 6);  // attn.wkv of every layer
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
