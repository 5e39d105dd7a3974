// A model folder: config.json, tokenizer.json, index and shards, as downloaded.
//
// Accepted: a plain folder, a Hugging Face cache snapshot (files are links into blobs), its
// repository root (models--org--name, through refs/main or `revision`), a Hugging Face id
// "org/name" that is in the Hugging Face cache, and several folders whose shards together are the
// model (spread over drives; a shard found in two of them is read from the first, the others are
// listed in notes()). The index says which files are the model; without one, a lone
// model.safetensors is the model.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/checkpoint/mirror.h"
#include "io/checkpoint/model_folder.h"
#include "io/checkpoint/safetensors.h"
#include "io/error.h"
#include "io/file.h"

namespace sluice {

struct Tensor {
    std::string name;
    DType dtype;
    std::vector<uint64_t> shape;
    uint32_t shard;   // index into shards()
    uint64_t offset;  // absolute, in the shard
    uint64_t bytes;
};

struct CheckpointOptions {
    std::vector<std::string> locations;  // folders or one Hugging Face id
    std::string revision;                // of an id or repository root; empty: refs/main
    Access access = Access::direct;
    bool headers_only = false;              // do not probe O_DIRECT
    std::vector<std::string> mirrors = {};  // folders with copies of some or all shards
};

class Checkpoint {
 public:
    // Opens every shard, parses all headers in parallel, and compares them with the index. Separate
    // errors, each with file, tensor and the command that downloads what is needed: a missing file,
    // a tensor that is not in the file that the index names, a tensor that is not in the index, and
    // a tensor in two shards. Further errors: config.json is missing, unreadable, empty or not JSON
    // text; tokenizer.json or generation_config.json is a pointer file or empty (they may be
    // missing). Files outside the index are listed in notes().
    static Result<Checkpoint> open(const CheckpointOptions& options);

    const Tensor* find(std::string_view name) const;
    // Like find(), but a missing tensor is an error: which shard it belongs to, and how to get it.
    Result<const Tensor*> require(std::string_view name) const;
    const std::vector<Tensor>& tensors() const { return tensors_; }
    const std::vector<File>& shards() const { return shards_; }

    // The copies of each shard in the mirrors: same name, size and header.
    const std::vector<std::vector<File>>& copies() const { return mirrors_.copies; }
    // One line for each mirror that is on the same drive as what it mirrors.
    const std::vector<std::string>& idle_mirrors() const { return mirrors_.idle; }
    // The number of folders, mirrors last. Each folder counts as a drive: File::drive() of its
    // files.
    uint32_t drives() const { return drives_; }

    const std::string& config_text() const { return config_text_; }
    const std::filesystem::path& config_path() const { return config_path_; }
    // Empty when the folder has none.
    const std::filesystem::path& tokenizer_path() const { return tokenizer_path_; }
    const std::filesystem::path& generation_config_path() const { return generation_config_path_; }
    const std::filesystem::path& folder() const { return home_.path; }  // the first one, resolved
    const std::vector<std::string>& notes() const { return notes_; }
    // "fetch it: hf download ORG/NAME FILE --local-dir FOLDER": how to download files of this model
    // again, for errors about them.
    std::string cure(const std::vector<std::string>& files) const;
    // "sluice inspect MODEL --check", MODEL as the user named it: the command that finds damaged
    // values.
    const std::string& check_command() const { return check_command_; }

 private:
    friend class CheckpointOpener;
    std::vector<Tensor> tensors_;                             // by shard, then by offset
    std::unordered_map<std::string_view, uint32_t> by_name_;  // views into tensors_
    std::vector<File> shards_;
    Mirrors mirrors_;
    uint32_t drives_ = 1;
    std::string config_text_, check_command_;
    std::filesystem::path config_path_, tokenizer_path_, generation_config_path_;
    ModelFolder home_;  // the first one
    std::vector<std::string> notes_;
};

}  // namespace sluice
