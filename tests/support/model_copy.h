// Copies of checkpoints of tests/models, mostly of the tiny one, to be damaged; how opening them
// fails.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint/checkpoint.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace sluice::model_copy {

namespace fs = std::filesystem;

inline const fs::path tiny = fs::path(test::models_folder) / "dsv41-tiny";
inline const fs::path v4 = fs::path(test::models_folder) / "dsv4-rand-a";
inline const fs::path random_a = fs::path(test::models_folder) / "dsv41-rand-a";
inline const std::string index_file = "model.safetensors.index.json";

inline std::string shard_name(int number, int shards = 12) {
    const auto digits = [](int value) {
        const std::string text = std::to_string(value);
        return std::string(5 - text.size(), '0') + text;
    };
    return "model-" + digits(number) + "-of-" + digits(shards) + ".safetensors";
}

inline Result<Checkpoint> open_all(std::vector<std::string> locations, std::string revision = "") {
    return Checkpoint::open({std::move(locations), std::move(revision), Access::buffered, true});
}

inline Result<Checkpoint> open_folder(const fs::path& folder) {
    return open_all({folder.string()});
}

// A copy of the tiny or of another model to damage; undamaged files are links.
struct Copy {
    TempFolder root;
    fs::path folder = root / "model";
    Copy() { link_files(tiny, folder); }
    explicit Copy(const std::string& name) : root(name) { link_files(tiny, folder); }
    explicit Copy(const fs::path& model) { link_files(model, folder); }

    fs::path operator/(const std::string& name) const { return folder / name; }
    void damage(const std::string& name, const std::string& bytes) {
        replace_file(folder / name, bytes);
    }
    void remove(const std::string& name) { fs::remove(folder / name); }
    // Replaces the first `from` in the text of the index.
    void edit_index(const std::string& from, const std::string& to) {
        std::string text = read_file(folder / index_file);
        const size_t at = text.find(from);
        REQUIRE(at != text.npos);
        damage(index_file, text.replace(at, from.size(), to));
    }
};

inline void refuses(const Copy& copy, Code code, const std::vector<std::string>& parts) {
    const auto opened = open_folder(copy.folder);
    REQUIRE(!opened);
    CHECK(opened.error().code == code);
    says(opened.error().message, parts);
}

}  // namespace sluice::model_copy
