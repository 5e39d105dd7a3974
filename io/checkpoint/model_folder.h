// Finds the folder with a checkpoint's files from what a user types: a path, a Hugging Face cache
// snapshot or its repository root, or a Hugging Face id that is looked up in the cache. Downloads
// nothing.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "io/error.h"

namespace sluice {

struct ModelFolder {
    std::filesystem::path path;  // absolute, links kept: siblings are searched here
    std::string repository;      // "org/name" when the folder is part of a Hugging Face cache
    std::string revision;        // as the user gave it; empty: main
};

// `revision` is a branch, tag or commit of a Hugging Face id or repository root; empty means main.
// Fails with not_found, naming what was looked for, where, and the command that downloads it.
Result<ModelFolder> find_model_folder(const std::string& location, const std::string& revision);

// $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
std::filesystem::path hub_cache();

// The command that downloads `files` (all if empty) into this folder, quoted for a shell. REPO
// stands for an unknown Hugging Face id.
std::string fetch_command(const ModelFolder& folder, std::span<const std::string> files);
// The same command behind "fetch it: " or "fetch them: ".
std::string fetch_advice(const ModelFolder& folder, std::span<const std::string> files);

// `text` quoted as one word of a shell. Never shortened: a cut name could not be pasted.
std::string shell_quoted(std::string text);

}  // namespace sluice
