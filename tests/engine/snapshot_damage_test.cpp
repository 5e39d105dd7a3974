// Snapshots that are damaged, cut, foreign or made elsewhere are refused by name, and the session
// that refuses them stays as it was. A save that fails leaves the file that was there.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstring>
#include <random>

#include "engine/snapshot/snapshot_file.h"
#include "engine/snapshot/snapshot_identity.h"
#include "io/checksum.h"
#include "tests/support/models.h"
#include "tests/support/temp_folder.h"

namespace sluice::test {
namespace {

using Logits = std::vector<float>;

constexpr const char* model = "dsv41-rand-a";
// The other one has open groups that overlap, of rows and of index keys.
constexpr const char* models[] = {model, "dsv4-rand-a"};

EngineOptions small_options(const std::string& name = model) {
    EngineOptions options = model_options(name);
    options.context = 128;
    options.chunk = 32;
    options.threads = 1;
    return options;
}

std::vector<int32_t> some_ids(size_t count) {
    std::vector<int32_t> ids;
    while (ids.size() < count) ids.push_back(static_cast<int32_t>(10 + ids.size() * 7 % 500));
    return ids;
}

// A session in the middle of a sequence, a snapshot that it may restore, and its next logits.
struct Rig {
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Session> session;
    std::vector<std::byte> good;  // of position 27, past the window, with an open row
    std::vector<std::byte> before;
    Logits next;
    std::vector<int32_t> ids = some_ids(40);

    explicit Rig(const EngineOptions& options = small_options()) {
        engine = load_engine(options);
        session = open_session(*engine);
        REQUIRE(session->feed(std::span(ids).first(27)));
        good = saved();
        session->reset();
        REQUIRE(session->feed(std::span(ids).subspan(3, 9)));
        before = saved();
        next = continued();
        REQUIRE(session->restore(before));
    }
    std::vector<std::byte> saved() const {
        auto bytes = session->snapshot();
        REQUIRE(bytes);
        return std::move(*bytes);
    }
    Logits continued() {
        auto logits = session->feed(std::span(ids).subspan(30, 1));
        REQUIRE(logits);
        return {logits->begin(), logits->end()};
    }
    void unchanged() {
        CHECK(session->position() == 9);
        CHECK(saved() == before);
    }
    void continues() {
        const Logits now = continued();
        CHECK(now.size() == next.size());
        CHECK(std::memcmp(now.data(), next.data(), now.size() * sizeof(float)) == 0);
        REQUIRE(session->restore(before));
    }
    Error refused(std::span<const std::byte> bytes) {
        const auto done = session->restore(bytes);
        REQUIRE(!done);
        return done.error();
    }
    Error refused_file(const std::filesystem::path& path) {
        const auto done = session->restore(path);
        REQUIRE(!done);
        return done.error();
    }
};

std::string as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool says(const Error& error, Code code, std::string_view text) {
    const bool yes = error.code == code && error.message.find(text) != std::string::npos;
    if (!yes) MESSAGE(error.message);
    return yes;
}

SnapshotHeader header_of(std::span<const std::byte> bytes) {
    auto header = read_snapshot_header(bytes, bytes.size());
    REQUIRE(header);
    return std::move(*header);
}

// The same snapshot with a value of its header changed, and the right checksum.
template <class T>
std::vector<std::byte> with(std::vector<std::byte> bytes, size_t at, T value) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + 12, sizeof(length));
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    const uint64_t sum = checksum(bytes.data(), length - 8);
    std::memcpy(bytes.data() + length - 8, &sum, sizeof(sum));
    return bytes;
}

// Flips, cuts, removes or adds bytes; half of the time in the header.
std::vector<std::byte> damaged(std::vector<std::byte> bytes, size_t head, std::mt19937_64& random) {
    const size_t size = bytes.size();
    const size_t at = random() % (random() % 2 == 0 ? size : head);
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t count = std::min<size_t>(1 + random() % 64, size - at);
    switch (random() % 5) {
        case 0:
        case 1:
            *place ^= static_cast<std::byte>(1u << random() % 8);
            break;
        case 2:
            bytes.resize(at);
            break;
        case 3:
            bytes.erase(place, place + static_cast<std::ptrdiff_t>(count));
            break;
        default:
            bytes.insert(place, count, static_cast<std::byte>(random()));
    }
    return bytes;
}

// Puts the checksum of the header right, if there is a header; then the checks behind it have to
// find the damage.
void put_checksum_right(std::vector<std::byte>& bytes) {
    uint32_t length = 0;
    if (bytes.size() < 24) return;
    std::memcpy(&length, bytes.data() + 12, sizeof(length));
    if (length < 24 || length > bytes.size()) return;
    const uint64_t sum = checksum(bytes.data(), length - 8);
    std::memcpy(bytes.data() + length - 8, &sum, sizeof(sum));
}

}  // namespace

static void check_cuts(Rig rig) {
    const TempFolder folder;
    const SnapshotHeader header = header_of(rig.good);
    std::vector<size_t> cuts = {0, 1, 7, 8, 9, 15, 16, 17, 100};
    for (const SnapshotSection& section : header.sections) {
        for (size_t at : {section.offset - 1, section.offset, section.offset + 1}) {
            cuts.push_back(at);
        }
    }
    cuts.push_back(rig.good.size() - 1);
    for (size_t cut : cuts) {
        CAPTURE(cut);
        const auto part = std::span(rig.good).first(cut);
        CHECK(says(rig.refused(part), Code::corrupt, "cut short"));
        const auto file = folder.write("cut", as_text(part));
        CHECK(says(rig.refused_file(file), Code::corrupt, "cut short"));
        rig.unchanged();
    }
    MESSAGE(cuts.size(), " cuts of a snapshot of ", rig.good.size(), " bytes, ",
            header.sections.size(), " sections");
    rig.continues();
}

TEST_CASE("a snapshot cut anywhere is refused as cut short") {
    for (const char* name : models) check_cuts(Rig(small_options(name)));
}

static void check_sections(Rig rig) {
    const SnapshotHeader header = header_of(rig.good);
    for (size_t i = 0; i < header.sections.size(); ++i) {
        std::vector<std::byte> bytes = rig.good;
        bytes[header.sections[i].offset + 3] ^= std::byte{16};
        const std::string name = "section " + std::to_string(i + 1) + " of ";
        CHECK(says(rig.refused(bytes), Code::corrupt, name));
        CHECK(says(rig.refused(bytes), Code::corrupt, "is damaged"));
    }
    rig.unchanged();
    std::vector<std::byte> bytes = rig.good;
    bytes[40] ^= std::byte{1};
    CHECK(says(rig.refused(bytes), Code::corrupt, "its header is damaged"));
    bytes = rig.good;
    bytes.push_back(std::byte{0});
    CHECK(says(rig.refused(bytes), Code::corrupt, "after its end"));
    rig.unchanged();
    rig.continues();
}

TEST_CASE("a damaged section is named") {
    for (const char* name : models) check_sections(Rig(small_options(name)));
}

static void check_damage(Rig rig, int count, uint64_t seed) {
    const TempFolder folder;
    std::mt19937_64 random(seed);
    const size_t head = header_of(rig.good).sections[0].offset;
    // The names in the header are for messages: any other name is as good.
    const SnapshotIdentity id = header_of(rig.good).identity;
    const size_t names = 40;
    const size_t names_end = names + 4 + id.model_name.size() + 4 + id.build_name.size();
    for (int i = 0; i < count; ++i) {
        CAPTURE(i);
        std::vector<std::byte> bytes = damaged(rig.good, head, random);
        if (i % 2 == 0) put_checksum_right(bytes);
        if (bytes == rig.good) continue;
        const bool only_names =
            bytes.size() == rig.good.size() &&
            std::equal(bytes.begin(), bytes.begin() + names, rig.good.begin()) &&
            std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(names_end),
                       bytes.begin() + static_cast<std::ptrdiff_t>(head - 8),
                       rig.good.begin() + static_cast<std::ptrdiff_t>(names_end)) &&
            std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(head), bytes.end(),
                       rig.good.begin() + static_cast<std::ptrdiff_t>(head));
        if (only_names && rig.session->restore(bytes)) {
            REQUIRE(rig.session->restore(rig.before));
            continue;
        }
        rig.refused(bytes);
        if (i % 20 == 0) rig.refused_file(folder.write("damaged", as_text(bytes)));
        CHECK(rig.session->position() == 9);
        if (i % 200 == 0) rig.continues();
    }
    rig.unchanged();
    rig.continues();
}

TEST_CASE("10,000 snapshots with flipped, missing and added bytes are refused") {
    check_damage(Rig(), 8000, 7);
    check_damage(Rig(small_options("dsv4-rand-a")), 2000, 9);
}

static void check_headers(Rig rig) {
    std::mt19937_64 random(8);
    const size_t head = header_of(rig.good).sections[0].offset;
    size_t accepted = 0;
    for (size_t at = 8; at + 8 < head; ++at) {
        CAPTURE(at);
        const auto bytes = with(rig.good, at, static_cast<uint8_t>(random()));
        if (at >= 12 && at < 16) continue;  // the length, which says where the checksum is
        // Names for messages may be anything; so may the layer published last, if it has keys.
        accepted += rig.session->restore(bytes).has_value();
        REQUIRE(rig.session->restore(rig.before));
    }
    CHECK(accepted < 80);
    rig.unchanged();
    rig.continues();
}

TEST_CASE("a header that contradicts itself or the model is refused, whatever its checksum") {
    for (const char* name : models) check_headers(Rig(small_options(name)));
}

TEST_CASE("a foreign file is no snapshot") {
    Rig rig;
    const TempFolder folder;
    const auto text = folder.write("text", "What is this?");
    CHECK(says(rig.refused_file(text), Code::corrupt, "no snapshot"));
    const auto shard =
        std::filesystem::path(model_path(model)) / "model-00004-of-00010.safetensors";
    CHECK(says(rig.refused_file(shard), Code::corrupt, "no snapshot"));
    CHECK(says(rig.refused_file(folder / "missing"), Code::not_found, "missing"));
    CHECK(says(rig.refused_file(folder.path()), Code::usage, "regular file"));
    REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(says(rig.refused_file(folder / "pipe"), Code::usage, "regular file"));
    rig.unchanged();
    rig.continues();
}

TEST_CASE("a snapshot made elsewhere is refused by what is other") {
    Rig rig;
    const auto newer = with(rig.good, 8, uint32_t{2});
    CHECK(says(rig.refused(newer), Code::unsupported, "format 2"));
    CHECK(says(rig.refused(with(rig.good, 24, uint64_t{1})), Code::unsupported, "another model"));
    CHECK(says(rig.refused(with(rig.good, 32, uint64_t{1})), Code::unsupported, "another build"));
    const SnapshotIdentity id = header_of(rig.good).identity;
    CHECK(id.model_name == model);
    CHECK(id.device == "cpu");
    const size_t device = 40 + 4 + id.model_name.size() + 4 + id.build_name.size() + 4;
    const auto other_device = with(rig.good, device, std::array<char, 3>{'g', 'p', 'u'});
    CHECK(says(rig.refused(other_device), Code::unsupported, "another kind of device (gpu)"));
    const auto keys = with(rig.good, device + 3, uint32_t{1});
    CHECK(says(rig.refused(keys), Code::unsupported, "--index-keys reference"));
    const auto published = with(rig.good, device + 11, int32_t{0});
    CHECK(says(rig.refused(published), Code::corrupt, "layer 0"));
    const auto position = with(rig.good, device + 7, uint32_t{26});
    CHECK(says(rig.refused(position), Code::corrupt, "sections"));
    rig.unchanged();
    rig.continues();
}

TEST_CASE("other index keys and another model are refused by real sessions of them") {
    Rig rig;
    EngineOptions options = small_options();
    options.index_keys = IndexKeys::reference;
    auto reference = load_engine(options);
    auto session = open_session(*reference);
    const auto keys = session->restore(rig.good);
    REQUIRE(!keys);
    CHECK(says(keys.error(), Code::unsupported, "other index keys"));
    auto tiny = load_engine(small_options("dsv41-tiny"));
    auto other = open_session(*tiny);
    const auto foreign = other->restore(rig.good);
    REQUIRE(!foreign);
    CHECK(says(foreign.error(), Code::unsupported, "another model (dsv41-rand-a"));
    CHECK(other->position() == 0);
}

TEST_CASE("a model is the same in another folder, and another one with other weights") {
    Rig rig;
    const TempFolder folder;
    EngineOptions options = small_options();
    link_files(model_path(model), folder / "copy");
    options.locations = {(folder / "copy").string()};
    {
        auto engine = load_engine(options);
        auto session = open_session(*engine);
        CHECK(session->restore(rig.good));
    }
    // A fine-tuned model has the headers of its base.
    const auto shard = folder / "copy/model-00004-of-00010.safetensors";
    std::string bytes = read_file(shard);
    bytes[bytes.size() / 2] ^= 1;
    replace_file(shard, bytes);
    auto engine = load_engine(options);
    auto session = open_session(*engine);
    const auto refused = session->restore(rig.good);
    REQUIRE(!refused);
    CHECK(says(refused.error(), Code::unsupported, "another model"));
}

TEST_CASE("the kind of a device leaves out its number and keeps what decides its bits") {
    CHECK(device_kind("cpu", "cpu (avx512-vnni, 8 threads)") == "cpu");
    const std::string name = "cuda:1 (NVIDIA H200, compute 9.0), link held to 14 GB/s";
    CHECK(device_kind("cuda:1", name) == "cuda, compute 9.0");
    CHECK(device_kind("cuda", "cuda:0 (X, compute 12.0)") == "cuda, compute 12.0");
}

TEST_CASE("a save that fails leaves the file that was there") {
    Rig rig;
    const TempFolder folder;
    const auto file = folder / "chat";
    REQUIRE(rig.session->save(file));
    const std::string complete = read_file(file);
    CHECK(complete == as_text(rig.before));
    REQUIRE(rig.session->restore(rig.good));

    // As on a full drive: nothing can be written past a quarter of the snapshot.
    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit all{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &all) == 0);
    const rlimit quarter{rig.good.size() / 4, all.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &quarter) == 0);
    const auto full = rig.session->save(file);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &all) == 0);
    std::signal(SIGXFSZ, before);
    REQUIRE(!full);
    CHECK(says(full.error(), Code::io, "chat"));
    CHECK(read_file(file) == complete);
    const std::filesystem::directory_iterator entries(folder.path());
    CHECK(std::distance(begin(entries), end(entries)) == 1);  // nothing unfinished beside it

    CHECK(rig.session->save("/proc/chat").error().code == Code::io);  // a read-only folder
    CHECK(rig.session->save(folder / "missing/chat").error().code == Code::usage);
    CHECK(rig.session->save(folder.path()).error().code == Code::usage);
    const auto foreign = folder.write("notes", "not a snapshot");
    CHECK(says(rig.session->save(foreign).error(), Code::usage, "another kind of file"));
    CHECK(read_file(foreign) == "not a snapshot");

    REQUIRE(rig.session->save(file));  // and one that succeeds replaces it
    CHECK(read_file(file) == as_text(rig.good));
    CHECK(rig.session->position() == 27);
}

}  // namespace sluice::test
