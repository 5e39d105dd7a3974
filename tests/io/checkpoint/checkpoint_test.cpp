#include "io/checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/checkpoint/weight_index.h"
#include "tests/support/model_copy.h"
#include "tests/support/mutate.h"
#include "tests/support/temp_folder.h"

using namespace sluice;
using namespace sluice::model_copy;

TEST_CASE("checkpoint: both models open, with the tensors of index and headers") {
    for (const fs::path& folder : {tiny, random_a}) {
        CAPTURE(folder.string());
        auto opened = open_folder(folder);
        REQUIRE(opened);
        const Checkpoint checkpoint = std::move(*opened);  // may be moved
        CHECK(checkpoint.notes().empty());
        CHECK(checkpoint.folder() == folder);
        CHECK(checkpoint.config_text() == read_file(folder / "config.json"));
        CHECK(checkpoint.tokenizer_path() == folder / "tokenizer.json");
        CHECK(checkpoint.generation_config_path().empty());
        const auto index = read_weight_index(folder / index_file);
        REQUIRE(index);
        CHECK(index->entries.size() == checkpoint.tensors().size());
        uint64_t bytes = 0;
        for (const auto& entry : index->entries) {
            const Tensor* tensor = checkpoint.find(entry.tensor);
            REQUIRE(tensor);
            CHECK(tensor->name == entry.tensor);
            CHECK(checkpoint.shards()[tensor->shard].path() == folder / index->files[entry.file]);
            bytes += tensor->bytes;
        }
        CHECK(bytes == index->total_size.value_or(bytes));
        CHECK(bytes > 9'000'000);
    }
}

TEST_CASE("checkpoint: a tensor's bytes are at its offset") {
    auto opened = open_folder(tiny);
    REQUIRE(opened);
    const Tensor* norm = opened->find("norm.weight");
    REQUIRE(norm);
    const std::string file = read_file(tiny / shard_name(10));
    const Container container = Container::parse(file);
    for (const Container::Item& item : container.items) {
        if (item.name != "norm.weight") continue;
        std::string got(norm->bytes, '\0');
        REQUIRE(opened->shards()[norm->shard].read(norm->offset, got.data(), norm->bytes));
        CHECK(got == container.data.substr(item.begin, item.end - item.begin));
    }
}

TEST_CASE("checkpoint: missing shards are named, with the command that downloads them") {
    for (const int number : {1, 6, 12}) {
        Copy copy;
        copy.remove(shard_name(number));
        refuses(
            copy, Code::not_found,
            {"1 of 12 weight files", "is missing: " + shard_name(number),
             "hf download REPO " + shard_name(number) + " --local-dir " + copy.folder.string()});
    }
    Copy renamed;
    fs::rename(renamed / shard_name(3), renamed / "model-00003.safetensors");
    renamed.remove(shard_name(5));
    refuses(renamed, Code::not_found,
            {"2 of 12 weight files", shard_name(3) + ", " + shard_name(5), "are missing"});
    Copy most;
    for (int number = 1; number <= 11; ++number) most.remove(shard_name(number));
    refuses(most, Code::not_found, {"11 of 12", "and 3 more", "hf download REPO --local-dir"});
}

TEST_CASE("checkpoint: damaged shards are named as what they are") {
    const std::string good = read_file(tiny / shard_name(4));
    const auto one = [&](const std::string& bytes, const std::string& part) {
        Copy copy;
        copy.damage(shard_name(4), bytes);
        refuses(copy, Code::corrupt, {shard_name(4), part, "hf download REPO " + shard_name(4)});
    };
    one(mutate::cut(good, 1), "1 bytes are missing");
    one(mutate::cut(good, 4096), "4096 bytes are missing");
    one(mutate::tail(good), "extra bytes after its last tensor");
    one(mutate::lfs_pointer(), "git-lfs pointer for a file of 5 GiB");
    one(mutate::html(), "HTML");
    one("", "the file is empty");
    one(std::string(1 << 20, '\0'), "zeros");
    Copy all;
    for (int number = 1; number <= 12; ++number) {
        all.damage(shard_name(number), mutate::lfs_pointer());
    }
    refuses(all, Code::corrupt, {shard_name(1), "git-lfs pointer", "and 11 more files"});
}

TEST_CASE("checkpoint: an unknown dtype is unsupported, and downloading is not advised") {
    Copy copy;
    copy.damage(shard_name(4), mutate::dtype(read_file(tiny / shard_name(4)), "wkv.scale", "F9"));
    refuses(copy, Code::unsupported, {shard_name(4), "unknown dtype \"F9\""});
    CHECK(open_folder(copy.folder).error().message.find("hf download") == std::string::npos);
}

TEST_CASE("checkpoint: index and headers disagree, each way with a message of its own") {
    Copy absent;
    absent.edit_index("\"norm.weight\": \"model-00010-of-00012.safetensors\"",
                      "\"norm.weight\": \"model-00013-of-00012.safetensors\"");
    refuses(absent, Code::not_found, {"is missing: model-00013-of-00012.safetensors"});

    Copy elsewhere;
    elsewhere.edit_index("\"norm.weight\": \"model-00010", "\"norm.weight\": \"model-00009");
    refuses(elsewhere, Code::corrupt,
            {"maps tensor \"norm.weight\" to " + shard_name(9), "does not declare it",
             shard_name(10) + " does", "hf download REPO model.safetensors.index.json"});

    Copy extra;
    extra.edit_index("\"norm.weight\"",
                     "\"mtp.0.norm.weight\": \"model-00010-of-00012.safetensors\",\n"
                     "\"norm.weight\"");
    refuses(extra, Code::corrupt,
            {"maps tensor \"mtp.0.norm.weight\" to " + shard_name(10), "no shard does"});

    Copy fewer;
    fewer.edit_index("\"head.weight\": \"model-00010-of-00012.safetensors\",\n", "");
    refuses(fewer, Code::corrupt,
            {shard_name(10) + " declares tensor \"head.weight\", which is not in the index"});

    Copy dropped;  // a valid file that lost a scale
    dropped.damage(shard_name(4),
                   mutate::drop_clean(read_file(tiny / shard_name(4)), "experts.7.w2.scale"));
    refuses(dropped, Code::corrupt,
            {"maps tensor \"layers.2.ffn.experts.7.w2.scale\" to " + shard_name(4)});

    Copy twice;  // the same tensor, with other bytes, in two indexed shards
    Container container = Container::parse(read_file(tiny / shard_name(10)));
    container.at("norm.weight").name = "embed.weight";
    twice.damage(shard_name(10), padded(container));
    refuses(twice, Code::corrupt,
            {"tensor \"embed.weight\" is declared by both " + shard_name(1) + " and " +
             shard_name(10)});
}

TEST_CASE("checkpoint: invalid indexes") {
    const auto index = [](const std::string& text, Code code,
                          const std::vector<std::string>& parts) {
        Copy copy;
        copy.damage(index_file, text);
        refuses(copy, code, parts);
    };
    index("", Code::corrupt, {index_file, "the file is empty"});
    index("[]", Code::corrupt, {"not a JSON object"});
    index("{\"weight_map\": []}", Code::corrupt, {"weight_map is not an object"});
    index("{\"weight_map\": {}}", Code::corrupt, {"weight_map is missing or empty"});
    index("{\"metadata\": {\"weight_map\": {\"a\": \"b\"}}}", Code::corrupt,
          {"weight_map is missing"});
    index("{\"weight_map\": {\"a\": 1}}", Code::corrupt, {"\"a\": its file name is not a string"});
    index("{\"weight_map\": {\"a\": {\"b\": \"c\"}}}", Code::corrupt,
          {"file name is not a string"});
    index("{\"weight_map\": {\"a\": \"../../etc/passwd\"}}", Code::corrupt,
          {"not a plain file name"});
    index("{\"weight_map\": {\"a\": \"..\"}}", Code::corrupt, {"not a plain file name"});
    index("{\"weight_map\": {\"a\": \"f\", \"a\": \"g\"}}", Code::corrupt,
          {"\"a\" is named twice"});
    index("{\"weight_map\": {\"a\": \"f\"", Code::corrupt, {"not valid JSON"});
    index(mutate::lfs_pointer(), Code::corrupt, {"git-lfs pointer"});
    index(mutate::html(), Code::corrupt, {"HTML"});

    Copy none;
    none.remove(index_file);
    refuses(none, Code::not_found,
            {index_file + " is missing (there are 12 numbered shards",
             "hf download REPO " + index_file});
}

TEST_CASE("checkpoint: config.json missing, unreadable, empty or of another kind") {
    Copy missing;
    missing.remove("config.json");
    refuses(missing, Code::not_found, {"config.json is missing", "hf download REPO config.json"});
    Copy empty;
    empty.damage("config.json", " \n");
    refuses(empty, Code::corrupt, {"config.json: the file is empty"});
    Copy pointer;
    pointer.damage("config.json", mutate::lfs_pointer());
    refuses(pointer, Code::corrupt, {"config.json: the file is a git-lfs pointer"});
    Copy dangling;
    dangling.remove("config.json");
    fs::create_symlink("nowhere", dangling / "config.json");
    refuses(
        dangling, Code::not_found,
        {"config.json: a link to nowhere, which does not exist (an unfinished download?); fetch "
         "it: hf download REPO "
         "config.json"});
    Copy no_tokenizer;
    no_tokenizer.remove("tokenizer.json");
    fs::create_symlink("nowhere", no_tokenizer / "tokenizer.json");
    refuses(no_tokenizer, Code::not_found,
            {"tokenizer.json: a link to nowhere, which does not exist (an unfinished download?); "
             "fetch it: hf download REPO "
             "tokenizer.json"});
    Copy folder;
    folder.remove("config.json");
    fs::create_directory(folder / "config.json");
    refuses(folder, Code::unsupported,
            {"config.json: a folder, not a file; move it elsewhere; fetch it: hf download REPO "
             "config.json"});
    Copy pipe;
    pipe.remove("config.json");
    REQUIRE(mkfifo((pipe / "config.json").c_str(), 0600) == 0);
    refuses(pipe, Code::unsupported, {"config.json: a pipe, not a file; move it elsewhere; fetch"});
    Copy shard;
    shard.remove("model-00002-of-00012.safetensors");
    fs::create_directory(shard / "model-00002-of-00012.safetensors");
    refuses(shard, Code::unsupported,
            {"00002-of-00012.safetensors: a folder, not a file; move it"});
    if (geteuid() == 0) return;  // root may read everything
    Copy forbidden;
    forbidden.damage("config.json", "{}");
    chmod((forbidden / "config.json").c_str(), 0);
    refuses(forbidden, Code::io, {"config.json", "Permission denied"});
}

TEST_CASE("checkpoint: a tokenizer may be missing, but not be a file of another kind") {
    Copy missing;
    missing.remove("tokenizer.json");
    const auto opened = open_folder(missing.folder);
    REQUIRE(opened);
    CHECK(opened->tokenizer_path().empty());
    CHECK(opened->cure({"tokenizer.json"}).find("hf download REPO tokenizer.json") !=
          std::string::npos);
    Copy pointer;
    pointer.damage("tokenizer.json", mutate::lfs_pointer());
    refuses(pointer, Code::corrupt, {"tokenizer.json: the file is a git-lfs pointer"});
    Copy empty;
    empty.damage("tokenizer.json", "");
    refuses(empty, Code::corrupt, {"tokenizer.json: the file is empty"});
    Copy page;
    write_file(page / "generation_config.json", mutate::html());
    refuses(page, Code::corrupt, {"generation_config.json: the file is an HTML page"});
}

TEST_CASE("checkpoint: stray files are listed once and not read") {
    Copy copy;
    fs::copy_file(tiny / shard_name(1), copy / "model.safetensors");
    fs::copy_file(tiny / shard_name(1), copy / "backup-of-1.safetensors");
    write_file(copy / "model-00002-of-00012.safetensors.tmp", "half");
    write_file(copy / "model-00002-of-00012.safetensors~", "");
    write_file(copy / "README.md", "text");
    const auto opened = open_folder(copy.folder);
    REQUIRE(opened);
    REQUIRE(opened->notes().size() == 1);
    says(opened->notes()[0], {"files not read, because the index does not list them: ",
                              "backup-of-1.safetensors, ", "model-00002-of-00012.safetensors.tmp",
                              "model-00002-of-00012.safetensors~", "model.safetensors"});
    CHECK(opened->notes()[0].find("README") == std::string::npos);
    CHECK(opened->shards().size() == 12);
}

TEST_CASE("checkpoint: a lone model.safetensors needs no index") {
    TempFolder root;
    fs::create_symlink(tiny / "config.json", root / "config.json");
    fs::copy_file(tiny / shard_name(10), root / "model.safetensors");
    const auto opened = open_folder(root.path());
    REQUIRE(opened);
    CHECK(opened->tensors().size() == 2);
    CHECK(opened->find("norm.weight") != nullptr);
}

TEST_CASE("checkpoint: an index that omits a shard number or states another size is noted") {
    Copy copy;
    copy.edit_index("23512928", "23512929");
    std::string text = read_file(copy / index_file);
    for (size_t at; (at = text.find(shard_name(1))) != text.npos;) {
        text.replace(at, shard_name(1).size(), "first.safetensors");
    }
    copy.damage(index_file, text);
    fs::rename(copy / shard_name(1), copy / "first.safetensors");
    // With a name outside the series, the numbers say nothing about completeness.
    auto opened = open_folder(copy.folder);
    REQUIRE(opened);
    REQUIRE(opened->notes().size() == 1);
    says(opened->notes()[0], {"states a total of 23512929 bytes, but its tensors have 23512928"});

    Copy cut;
    cut.edit_index(" \"embed.weight\": \"model-00001-of-00012.safetensors\",\n", " ");
    opened = open_folder(cut.folder);
    REQUIRE(opened);
    REQUIRE(opened->notes().size() == 3);
    says(opened->notes()[0], {"not read: " + shard_name(1)});
    says(opened->notes()[1], {"the index does not list shard 1 of 12"});
    const auto missing = opened->require("embed.weight");
    REQUIRE(!missing);
    says(missing.error().message,
         {"tensor \"embed.weight\" is neither in a shard nor in the index"});
}

TEST_CASE("checkpoint: require() names the shard where the tensor should be") {
    const auto opened = open_folder(tiny);
    REQUIRE(opened);
    REQUIRE(opened->require("norm.weight"));
    const auto missing = opened->require("layers.3.attn.wq_c.weight");
    REQUIRE(!missing);
    CHECK(missing.error().code == Code::not_found);
    says(missing.error().message, {"\"layers.3.attn.wq_c.weight\"", "belongs to " + shard_name(5),
                                   "hf download REPO " + shard_name(5) + " --local-dir "});
}

TEST_CASE("checkpoint: headers of any length") {
    for (size_t k = 1; k <= 7; ++k) {
        CAPTURE(k);
        Copy copy;
        for (const int number : {2, 11}) {
            copy.damage(shard_name(number),
                        mutate::unpadded(read_file(tiny / shard_name(number)), k));
        }
        const auto opened = open_folder(copy.folder);
        REQUIRE(opened);
        const auto plain = open_folder(tiny);
        REQUIRE(plain);
        for (const char* name : {"layers.0.attn.attn_sink", "layers.1.engram.embed.scale"}) {
            const Tensor *a = opened->find(name), *b = plain->find(name);
            REQUIRE(a);
            REQUIRE(b);
            std::string got(a->bytes, '\0'), want(b->bytes, '\0');
            REQUIRE(opened->shards()[a->shard].read(a->offset, got.data(), a->bytes));
            REQUIRE(plain->shards()[b->shard].read(b->offset, want.data(), b->bytes));
            CHECK(got == want);
        }
    }
}

TEST_CASE("checkpoint: shards spread over folders, some of them twice") {
    Copy copy;
    const fs::path second = copy.root / "other drive";
    fs::create_directory(second);
    for (const int number : {3, 4, 11}) {
        fs::rename(copy / shard_name(number), second / shard_name(number));
    }
    fs::copy_file(tiny / shard_name(5), second / shard_name(5));
    const auto opened = open_all({copy.folder.string(), second.string()});
    REQUIRE(opened);
    CHECK(opened->shards()[2].path() == second / shard_name(3));
    CHECK(opened->shards()[4].path() == copy / shard_name(5));
    REQUIRE(opened->notes().size() == 1);
    says(opened->notes()[0], {"an earlier folder has them too", (second / shard_name(5)).string()});
    // Config and index may be in the second folder.
    const auto reversed = open_all({second.string(), copy.folder.string()});
    REQUIRE(reversed);
    CHECK(reversed->shards()[4].path() == second / shard_name(5));

    fs::remove(second / shard_name(11));
    const auto missing = open_all({copy.folder.string(), second.string()});
    REQUIRE(!missing);
    says(missing.error().message, {copy.folder.string(), second.string(), shard_name(11)});

    write_file(second / index_file, "{\"weight_map\": {\"a\": \"b\"}}");
    const auto two = open_all({copy.folder.string(), second.string()});
    REQUIRE(!two);
    says(two.error().message, {"differ: the folders are not parts of one download"});
}

TEST_CASE("checkpoint: a folder given twice is refused, under any name") {
    Copy copy;
    const fs::path link = copy.root / "link";
    fs::create_directory_symlink(copy.folder, link);
    const auto refused = [&](const CheckpointOptions& options) {
        const auto opened = Checkpoint::open(options);
        REQUIRE(!opened);
        CHECK(opened.error().code == Code::usage);
        says(opened.error().message, {"given"});
        return opened.error().message;
    };
    const std::string one = copy.folder.string(), other = link.string();
    says(refused({{one, one}, "", Access::buffered, true, {}}), {one, "-m"});
    says(refused({{one, other}, "", Access::buffered, true, {}}), {other, "-m"});
    says(refused({{one}, "", Access::buffered, false, {other}}), {other, "--mirror"});
    Copy copied;
    const std::string mirror = copied.folder.string();
    says(refused({{one}, "", Access::buffered, false, {mirror, mirror}}), {mirror, "--mirror"});
    CHECK(Checkpoint::open({{one}, "", Access::buffered, false, {mirror}}));
}

TEST_CASE(
    "checkpoint: a shard that only a mirror has is missing, and the message says what to do") {
    Copy first, mirror;
    first.remove(shard_name(7));
    const CheckpointOptions options{
        {first.folder.string()}, "", Access::buffered, false, {mirror.folder.string()}};
    const auto opened = Checkpoint::open(options);
    REQUIRE(!opened);
    CHECK(opened.error().code == Code::not_found);
    says(opened.error().message,
         {shard_name(7), mirror.folder.string(), "give the folder with -m"});
    mirror.remove(shard_name(7));
    const auto nowhere = Checkpoint::open(options);
    REQUIRE(!nowhere);
    says(nowhere.error().message, {"fetch it"});
    CHECK(!mentions(nowhere.error().message, "-m "));
    CHECK(!mentions(nowhere.error().message, "mirror"));
}
