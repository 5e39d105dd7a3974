#include "io/checkpoint/model_folder.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "io/checkpoint/model_folders.h"
#include "tests/support/model_copy.h"
#include "tests/support/temp_folder.h"

using namespace sluice;
using namespace sluice::model_copy;

namespace {

class Environment {  // sets a variable during a test
 public:
    Environment(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        setenv(name, value.c_str(), 1);
    }
    ~Environment() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }

 private:
    const char* name_;
    std::string old_;
};

// The layout of the hub's cache: snapshot files are relative links to blobs.
fs::path make_cache(const fs::path& cache, const std::string& commit) {
    const fs::path root = cache / "models--org--name";
    const fs::path snapshot = root / "snapshots" / commit;
    fs::create_directories(root / "blobs");
    fs::create_directories(snapshot);
    fs::create_directories(root / "refs");
    write_file(root / "refs" / "main", commit);
    int number = 0;
    for (const auto& entry : fs::directory_iterator(tiny)) {
        if (entry.is_directory()) continue;
        const std::string blob = "b" + std::to_string(number++);
        fs::copy_file(entry.path(), root / "blobs" / blob);
        fs::create_symlink(fs::path("../../blobs") / blob, snapshot / entry.path().filename());
    }
    return root;
}

}  // namespace

TEST_CASE("checkpoint: in the hub's cache, by snapshot, repository root and id") {
    TempFolder dir("caché 空 白");
    const std::string commit = "0123456789abcdef0123456789abcdef01234567";
    const fs::path root = make_cache(dir / "hub", commit);
    const auto check = [&](const Result<Checkpoint>& opened) {
        if (!opened) MESSAGE(opened.error().message);
        REQUIRE(opened);
        CHECK(opened->folder().filename() == commit);
        CHECK(opened->shards().size() == 12);
        // Files keep their names in the snapshot, not those of the blobs.
        CHECK(opened->shards()[0].path().filename() == shard_name(1));
    };
    check(open_folder(root / "snapshots" / commit));
    check(open_all({(root / "snapshots" / commit).string() + "/"}));
    check(open_folder(root));
    check(open_all({root.string()}, commit));
    {
        const Environment cache("HF_HUB_CACHE", (dir / "hub").string());
        check(open_all({"org/name"}));
        const auto other = open_all({"org/other"});
        REQUIRE(!other);
        says(other.error().message, {"\"org/other\" is neither a folder", "hf download org/other"});
        const auto revision = open_all({"org/name"}, "v2");
        REQUIRE(!revision);
        says(revision.error().message,
             {"no snapshot of revision v2", commit, "hf download org/name --revision v2"});
    }
    {
        const Environment none("HF_HUB_CACHE", "");
        const Environment home("HF_HOME", dir.path().string());
        check(open_all({"org/name"}));
    }
    // Through a link to the cache, and from another working folder.
    fs::create_directory_symlink(dir / "hub", dir / "linked");
    check(open_folder(dir / "linked" / "models--org--name"));
    const fs::path before = fs::current_path();
    fs::current_path(dir.path());
    const auto relative = open_all({"linked/models--org--name/snapshots/" + commit});
    fs::current_path(before);
    check(relative);
    std::string bytes(16, '\0');
    CHECK(relative->shards()[0].read(0, bytes.data(), bytes.size()));
}

TEST_CASE("checkpoint: an interrupted download in the cache") {
    TempFolder dir;
    const fs::path root = make_cache(dir / "hub", "abc");
    fs::remove(root / "snapshots" / "abc" / shard_name(2));
    fs::create_symlink("../../blobs/gone", root / "snapshots" / "abc" / shard_name(2));
    auto opened = open_folder(root);
    REQUIRE(!opened);
    says(opened.error().message, {"is missing: " + shard_name(2), "a link to a missing file",
                                  "hf download org/name " + shard_name(2)});
    CHECK(opened.error().message.find("--local-dir") == std::string::npos);
    fs::remove(root / "refs" / "main");
    opened = open_folder(root);  // a single snapshot is unambiguous
    REQUIRE(!opened);
    says(opened.error().message, {"is missing: " + shard_name(2)});
    fs::create_directory(root / "snapshots" / "def");
    opened = open_folder(root);
    REQUIRE(!opened);
    says(opened.error().message, {"no snapshot of revision main (available: abc def)"});
}

TEST_CASE("checkpoint: places that are not a model folder") {
    TempFolder dir;
    const auto refused = [](const std::vector<std::string>& locations, Code code,
                            const std::string& part) {
        const auto opened = open_all(locations);
        REQUIRE(!opened);
        CHECK(opened.error().code == code);
        says(opened.error().message, {part});
    };
    refused({}, Code::usage, "no model given");
    refused({""}, Code::usage, "no model given");
    refused({dir.path().string()}, Code::not_found, "no checkpoint here");
    refused({(dir / "nothing").string()}, Code::not_found,
            "no such folder; name a checkpoint folder, or the Hugging Face id");
    refused({"./no/such/folder"}, Code::not_found, "no such folder");
    refused({(tiny / "config.json").string()}, Code::usage, "is a file; give the folder");
    write_file(dir / "config.json", "{}");
    refused({dir.path().string()}, Code::not_found, "no weights");
    write_file(dir / "model.gguf", "GGUF");
    refused({dir.path().string()}, Code::unsupported,
            "a GGUF file, the format of llama.cpp (model.gguf)");
    refused({(dir / "model.gguf").string()}, Code::unsupported, "is a GGUF file");
    write_file(dir / "unnamed", "GGUF\x03");
    refused({(dir / "unnamed").string()}, Code::unsupported, "is a GGUF file");
}

TEST_CASE("checkpoint: a model in another form is named") {
    const auto refused = [](const std::string& name, const std::string& text,
                            const std::string& part) {
        TempFolder dir;
        write_file(dir / "config.json", "{}");
        write_file(dir / name, text);
        const auto opened = open_all({dir.path().string()});
        REQUIRE(!opened);
        CHECK(opened.error().code == Code::unsupported);
        says(opened.error().message, {part, "sluice reads original safetensors checkpoints"});
    };
    refused("pytorch_model.bin", "x", "a PyTorch checkpoint (pickle) (pytorch_model.bin)");
    refused("weights.npz", "x", "an MLX checkpoint");
    refused("config.json", R"({"quantization":{"group_size":64,"bits":4}})", "an MLX checkpoint");
    refused("adapter_config.json", "{}", "an adapter (LoRA)");
    TempFolder diffusion;
    write_file(diffusion / "model_index.json", "{}");
    const auto opened = open_all({diffusion.path().string()});
    REQUIRE(!opened);
    says(opened.error().message, {"a diffusion pipeline"});
}

TEST_CASE("check_command names the model as the user did") {
    const std::vector<std::string> one = {"org/name"}, two = {"/a", "/b c"}, none;
    CHECK(check_command(one, "v1", none) == "sluice inspect org/name --revision v1 --check");
    CHECK(check_command(two, "", one) == "sluice inspect /a -m '/b c' --mirror org/name --check");
}

TEST_CASE("fetch_command quotes for a shell") {
    const std::vector<std::string> files{"a b.safetensors", "it's"};
    CHECK(fetch_command({"/tmp/x y", "", ""}, files) ==
          "hf download REPO 'a b.safetensors' 'it'\\''s' --local-dir '/tmp/x y'");
    CHECK(fetch_command({"/tmp/x y", "org/name", ""}, {}) == "hf download org/name");
    CHECK(fetch_command({"/tmp", "org/name", "v 2"}, {}) ==
          "hf download org/name --revision 'v 2'");
}
