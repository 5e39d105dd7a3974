#include "tools/inspect.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <map>

#include "io/checksum.h"
#include "io/json.h"
#include "io/text.h"
#include "tests/support/model_copy.h"
#include "tests/support/models.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"
#include "tools/plan.h"
#include "tools/terminal/exit_code.h"

using namespace sluice;
using namespace sluice::model_copy;

namespace {

const auto never_stop = [](uint64_t) { return true; };

// The class with this name; empty if there is none.
TensorClass class_of(const Checkpoint& checkpoint, const std::string& name) {
    for (const TensorClass& c : list_tensors(checkpoint).classes) {
        if (c.name == name) return c;
    }
    return {};
}

std::map<std::string, std::pair<int64_t, int64_t>> classes_in(const std::string& json_text) {
    const Json root = Json::parse(json_text).value(), list = root["classes"];
    std::map<std::string, std::pair<int64_t, int64_t>> out;
    for (size_t i = 0; i < list.size(); ++i) {
        const Json c = list.at(i);
        out[c["class"].string().value()] = {c["tensors"].integer().value(),
                                            c["bytes"].integer().value()};
    }
    CHECK(out.size() == list.size());
    return out;
}

// The exit code and output of a run of the command.
struct Ran {
    int code;
    std::string out, err;
};

Ran run(const InspectOptions& options) {
    TempFolder folder;
    const auto redirect = [&](int fd, const std::string& name) {
        const int kept = dup(fd);
        const int file = ::open((folder / name).c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
        REQUIRE(file >= 0);
        dup2(file, fd);
        close(file);
        return kept;
    };
    std::fflush(stdout);
    const int kept_out = redirect(1, "out"), kept_err = redirect(2, "err");
    const int code = run_inspect(options);
    std::fflush(stderr);
    dup2(kept_out, 1);
    dup2(kept_err, 2);
    close(kept_out);
    close(kept_err);
    return {code, read_file(folder / "out"), read_file(folder / "err")};
}

InspectOptions options_for(const fs::path& folder) {
    InspectOptions options;
    options.checkpoint.locations = {folder.string()};
    options.ring.engine = IoEngine::threads;
    return options;
}

}  // namespace

TEST_CASE("inspect: every tensor of both models has a class, and the counts are the layout's") {
    for (const fs::path& folder : {tiny, random_a}) {
        auto checkpoint = open_folder(folder);
        REQUIRE(checkpoint);
        const TensorListing listing = list_tensors(*checkpoint);
        uint64_t tensors = 0;
        for (const TensorClass& c : listing.classes) tensors += c.tensors;
        CHECK(tensors == checkpoint->tensors().size());
        CHECK(listing.unaccounted.empty());
        CHECK(listing.note.empty());
    }
    auto checkpoint = open_folder(tiny);
    REQUIRE(checkpoint);
    const TensorClass routed = class_of(*checkpoint, "routed experts");
    CHECK(routed.tensors == 8 * 64 * 6);
    CHECK(routed.bytes == 8 * 64 * (3 * 8192 + 3 * 512));
    CHECK(class_of(*checkpoint, "Engram tables").tensors == 2 * 2);
    CHECK(class_of(*checkpoint, "Engram tables").bytes == (24064 + 24336) * 33);
    CHECK(class_of(*checkpoint, "Engram projections").tensors == 2 * 4);
    CHECK(class_of(*checkpoint, "shared experts").tensors == 8 * 6);
    CHECK(class_of(*checkpoint, "router").tensors == 8 * 2);
    CHECK(class_of(*checkpoint, "router bias for images").tensors == 8);
    CHECK(class_of(*checkpoint, "compressor").tensors == 5);
    CHECK(class_of(*checkpoint, "indexer").tensors == 13);
    CHECK(class_of(*checkpoint, "hyper-connections").tensors == 8 * 6);
    CHECK(class_of(*checkpoint, "norms").tensors == 8 * 2 + 1);
    CHECK(class_of(*checkpoint, "attention").tensors == 8 * 13);
    CHECK(class_of(*checkpoint, "embedding").bytes == 4096 * 256 * 2);
    CHECK(class_of(*checkpoint, "head").bytes == 4096 * 256 * 2);
}

TEST_CASE("inspect and plan list the same classes with the same sums") {
    for (const fs::path& folder : {tiny, random_a}) {
        CAPTURE(folder.string());
        auto checkpoint = open_folder(folder);
        REQUIRE(checkpoint);
        Options options;
        options.engine = test::model_options(folder.filename().string());
        auto plan = make_plan(options, PlanParts::placement);
        REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
        const auto inspected = classes_in(inspect_json(*checkpoint, nullptr));
        CHECK(inspected.size() >= 13);
        CHECK(inspected == classes_in(plan_json(*plan)));
    }
}

TEST_CASE("inspect: a tensor that the model does not know is unaccounted, by name") {
    Copy copy;
    Container container = Container::parse(read_file(tiny / shard_name(2)));
    container.at("layers.0.ffn.gate.bias_vl").name = "layers.0.mystery";
    copy.damage(shard_name(2), padded(container));
    copy.edit_index("\"layers.0.ffn.gate.bias_vl\"", "\"layers.0.mystery\"");
    auto checkpoint = open_folder(copy.folder);
    REQUIRE(checkpoint);
    CHECK(list_tensors(*checkpoint).unaccounted == std::vector<std::string>{"layers.0.mystery"});
    CHECK(class_of(*checkpoint, "unaccounted").tensors == 1);
    CHECK(class_of(*checkpoint, "router bias for images").tensors == 7);
    CHECK(inspect_text(*checkpoint, nullptr).find("unaccounted: layers.0.mystery") !=
          std::string::npos);
}

TEST_CASE("inspect: an unknown model is listed without classes, and a note says why") {
    Copy copy;
    std::string config = read_file(tiny / "config.json");
    const std::string type = "\"deepseek_v41\"";
    copy.damage("config.json", config.replace(config.find(type), type.size(), "\"llama\""));
    auto checkpoint = open_folder(copy.folder);
    REQUIRE(checkpoint);
    const TensorListing listing = list_tensors(*checkpoint);
    REQUIRE(listing.classes.size() == 1);
    CHECK(listing.classes[0].name == "unclassified");
    CHECK(listing.classes[0].tensors == checkpoint->tensors().size());
    says(listing.note, {"config.json", "llama"});
    CHECK(inspect_text(*checkpoint, nullptr).find(cat("note: ", listing.note)) !=
          std::string::npos);
}

TEST_CASE("inspect: the kind of draft head is named, and tables of ids are a class") {
    const auto opened = open_folder(v4);
    REQUIRE(opened);
    CHECK(class_of(*opened, "draft head (mtp.*), 2 DSpark stages").tensors == 212);
    CHECK(class_of(*opened, "experts by token id").bytes == 2 * 560 * 3 * 8);
    CHECK(list_tensors(*opened).unaccounted.empty());
    // A checkpoint of an MTP block has its projections.
    TempFolder folder;
    link_files(v4, folder / "model");
    for (const std::string& name : {index_file, std::string("model-00010-of-00010.safetensors")}) {
        const auto path = folder / "model" / name;
        std::string bytes = read_file(path);
        const std::string from = ".markov_head.", to = ".e_proj.xxxx.";
        for (size_t at; (at = bytes.find(from)) != bytes.npos;) bytes.replace(at, from.size(), to);
        replace_file(path, bytes);
    }
    const auto block = open_folder(folder / "model");
    REQUIRE_MESSAGE(block, (block ? "" : block.error().message));
    CHECK(class_of(*block, "draft head (mtp.*), an MTP block").tensors == 212);
}

TEST_CASE("inspect: text and JSON say the same") {
    auto opened = open_folder(random_a);
    REQUIRE(opened);
    const auto hashes = hash_shards(opened->shards(), {IoEngine::threads}, never_stop);
    REQUIRE(hashes);
    const std::string text = inspect_text(*opened, &*hashes);
    const auto json = Json::parse(inspect_json(*opened, &*hashes));
    REQUIRE(json);
    CHECK((*json)["shards"].size() == 10);
    CHECK(*(*json)["tensors"].integer() == static_cast<int64_t>(opened->tensors().size()));
    CHECK((*json)["unaccounted"].size() == 0);
    CHECK((*json)["read"]["bytes"].integer().has_value());
    for (size_t i = 0; i < 10; ++i) {
        const Json shard = (*json)["shards"].at(i);
        const std::string bytes = read_file(random_a / *shard["file"].string());
        CHECK(*shard["bytes"].integer() == static_cast<int64_t>(bytes.size()));
        CHECK(*shard["xxh3"].string() == checksum_text(checksum(bytes.data(), bytes.size())));
        CHECK(text.find(*shard["xxh3"].string()) != std::string::npos);
        CHECK(text.find(*shard["file"].string()) != std::string::npos);
    }
    for (const char* part : {"routed experts", "draft head (mtp.*)", "total", "buffered",
                             "checked: ", "index and headers agree", "GB/s"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
    }
}

TEST_CASE("inspect: hashes do not depend on engine, access or file size") {
    TempFolder folder;
    const uint64_t block = 4u << 20;
    std::vector<File> files;
    std::vector<std::string> want;
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, block - 1, block, block + 1,
                                 9 * block, 17 * block + 12345}) {
        std::string content(bytes, '\0');
        for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i >> 3);
        const auto path = folder / std::to_string(bytes);
        write_file(path, content);
        for (const Access access : {Access::direct, Access::buffered}) {
            auto file = File::open(path, access);
            REQUIRE(file);
            files.push_back(std::move(*file));
            want.push_back(checksum_text(checksum(content.data(), content.size())));
        }
    }
    for (const IoEngine engine : {IoEngine::threads, IoEngine::automatic}) {
        const auto run = hash_shards(files, {engine}, never_stop);
        REQUIRE(run);
        for (size_t i = 0; i < files.size(); ++i) {
            CHECK(!run->shards[i].error);
            CHECK(checksum_text(run->shards[i].hash) == want[i]);
        }
    }
    const auto stopped = hash_shards(files, {IoEngine::threads}, [](uint64_t) { return false; });
    REQUIRE(!stopped);
    CHECK(stopped.error().code == Code::interrupted);
}

TEST_CASE("inspect: hash files round trip, and differences are named") {
    const std::vector<ShardHash> before{{"a b.safetensors", 5, 1, {}},
                                        {"c", 6, ~uint64_t{0}, {}},
                                        {"d", 7, 3, {}},
                                        {"gone", 1, 1, {}}};
    const auto parsed = parse_hash_file(hash_file_text(before));
    REQUIRE(parsed);
    CHECK(compare_hashes(*parsed, before).empty());
    CHECK(compare_hashes(before, *parsed).empty());
    const std::vector<ShardHash> now{{"a b.safetensors", 5, 2, {}},
                                     {"c", 9, ~uint64_t{0}, {}},
                                     {"d", 7, 0, Error{Code::io, "unreadable"}},
                                     {"new", 1, 1, {}}};
    const auto differences = compare_hashes(now, *parsed);
    REQUIRE(differences.size() == 4);
    CHECK(differences[0] == "a b.safetensors: hash 0000000000000002, was 0000000000000001");
    CHECK(differences[1] == "c: 9 bytes, were 6");
    CHECK(differences[2] == "new: not in the hash file");
    CHECK(differences[3] == "gone: only in the hash file");
    for (const char* text :
         {"", "x", "# sluice xxh3-64\n", "# sluice xxh3-64\nnonsense\n",
          "# sluice xxh3-64\n0000000000000001  5\n", "# sluice xxh3-64\n000000000000001  5  a\n",
          "# sluice xxh3-64\n00000000000000zz  5  a\n",
          "# sluice xxh3-64\n0000000000000001  -5  a\n",
          "# sluice xxh3-64\n0000000000000001  5  a\n\n",
          "# sluice xxh3-64\n0000000000000001  5  a\n"
          "0000000000000001  5  a\n"}) {
        CAPTURE(text);
        const auto refused = parse_hash_file(text);
        REQUIRE(!refused);
        CHECK(refused.error().code == Code::usage);
    }
}

TEST_CASE("inspect: the listing is on stdout, errors are on stderr and in the exit code") {
    const Ran good = run(options_for(tiny));
    CHECK(good.code == exit_ok);
    CHECK(good.out.find("routed experts") != std::string::npos);
    CHECK(good.err.empty());

    Copy missing;
    missing.remove(shard_name(3));
    const Ran bad = run(options_for(missing.folder));
    CHECK(bad.code == exit_checkpoint);
    CHECK(bad.out.empty());
    CHECK(bad.err.find(shard_name(3)) != std::string::npos);
    CHECK(bad.err.find("hf download") != std::string::npos);

    InspectOptions json = options_for(tiny);
    json.json = true;
    CHECK(Json::parse(run(json).out));
}

TEST_CASE("inspect --check: writes hashes, then finds one flipped bit") {
    Copy copy;
    InspectOptions options = options_for(copy.folder);
    options.check = true;
    options.hash_file = copy.root / "hashes";
    CHECK(run(options).code == exit_ok);
    CHECK(fs::exists(options.hash_file));
    CHECK(run(options).code == exit_ok);

    std::string bytes = read_file(tiny / shard_name(7));
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    copy.damage(shard_name(7), bytes);
    const Ran differs = run(options);
    CHECK(differs.code == exit_checkpoint);
    CHECK(differs.err.find(shard_name(7) + ": hash ") != std::string::npos);
    CHECK(differs.err.find("1 of 12 shards differ") != std::string::npos);
    CHECK(differs.out.find("GB/s") != std::string::npos);
}

TEST_CASE("inspect --hashes: a path that cannot be a hash file is refused before a byte is read") {
    TempFolder dir;
    InspectOptions options = options_for(tiny);
    options.check = true;
    const auto refused = [&](const fs::path& path, const char* why) {
        options.hash_file = path;
        const Ran ran = run(options);
        CAPTURE(ran.err);
        CHECK(ran.code == exit_usage);
        CHECK(ran.out.empty());  // the listing includes the hashes, so it comes after the read
        CHECK(ran.err.find("--hashes") != std::string::npos);
        CHECK(ran.err.find(why) != std::string::npos);
    };
    refused(dir.path(), "is a folder");
    refused(dir / "missing" / "hashes", "its folder does not exist");
    refused("/dev/full", "is not a regular file");
    write_file(dir / "other", "something else");
    refused(dir / "other", "not a hash file");
    CHECK(read_file(dir / "other") == "something else");
    write_file(dir / "empty", "");  // as mktemp makes it
    fs::create_symlink("empty", dir / "link");
    options.hash_file = dir / "link";
    CHECK(run(options).code == exit_ok);
    CHECK(fs::is_symlink(dir / "link"));
    CHECK(read_file(dir / "empty").starts_with(hash_file_head));
}

TEST_CASE(
    "inspect --check: a shard that fails to read names file and offset, the others are read") {
    TempFolder folder;
    std::vector<File> files;
    for (const char* name : {"one", "two", "three"}) {
        write_file(folder / name, std::string(9 << 20, name[1]));
        auto file = File::open(folder / name, Access::buffered);
        REQUIRE(file);
        files.push_back(std::move(*file));
    }
    fs::resize_file(folder / "two", (5 << 20) + 7);  // truncated after it was opened
    const auto run = hash_shards(files, {IoEngine::threads}, never_stop);
    REQUIRE(run);
    CHECK(!run->shards[0].error);
    CHECK(!run->shards[2].error);
    REQUIRE(run->shards[1].error);
    says(run->shards[1].error->message, {(folder / "two").string(), "offset"});
}
