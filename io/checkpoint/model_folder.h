// From what a user types to a folder that holds a checkpoint's files: a path, a Hugging Face cache
// snapshot or its repository root, or a hub id looked up in the cache. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "io/error.h"

namespace sluice {

struct ModelFolder {
    std::filesystem::path path;  // absolute, links kept: siblings are searched here
    std::string repository;      // "org/name" when the folder is part of a Hugging Face cache
    std::string revision;        // as asked for, empty: main
};

// `revision` is a branch, tag or commit of a hub id or repository root; empty means main. Fails
// with not_found, saying what was looked for and where, and the command that fetches it.
Result<ModelFolder> find_model_folder(const std::string& location, const std::string& revision);

// $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// The command that fetches `files` (all when empty) into this folder, quoted for a shell. REPO
// stands for the hub id where it is not known.
std::string fetch_command(const ModelFolder& folder, std::span<const std::string> files);
// "fetch it: " and that command, or "fetch them: ".
std::string fetch_advice(const ModelFolder& folder, std::span<const std::string> files);

// As one word of a shell. Long names are kept whole: a cut one could not be pasted.
std::string shell_quoted(std::string text);

}  // namespace sluice
