#include "io/checkpoint/model_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "io/checkpoint/foreign_model.h"
#include "io/file.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view repository_prefix = "models--";
constexpr uint64_t ref_bytes_max = 4096;

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

fs::path expand_home(const std::string& path) {
    if (!path.starts_with("~/")) return path;
    return fs::path(environment("HOME")) / path.substr(2);
}

// "models--org--name" -> "org/name"; empty for other names.
std::string repository_of(const std::string& folder_name) {
    if (!folder_name.starts_with(repository_prefix)) return "";
    const std::string_view id = std::string_view(folder_name).substr(repository_prefix.size());
    const size_t dashes = id.find("--");
    if (dashes == id.npos) return std::string(id);
    return cat(id.substr(0, dashes), "/", id.substr(dashes + 2));
}

// .../models--org--name/snapshots/COMMIT -> "org/name"
std::string repository_around(const fs::path& snapshot) {
    const fs::path parent = snapshot.parent_path();
    return parent.filename() == "snapshots" ? repository_of(parent.parent_path().filename()) : "";
}

bool is_hub_id(std::string_view text) {
    const size_t slash = text.find('/');
    if (slash == text.npos || slash == 0 || slash + 1 == text.size()) return false;
    if (text.find('/', slash + 1) != text.npos || text.front() == '.') return false;
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.' || c == '/';
    });
}

std::vector<std::string> snapshots_in(const fs::path& root) {
    std::vector<std::string> names;
    std::error_code problem;
    for (fs::directory_iterator entry(root / "snapshots", problem), end; !problem && entry != end;
         entry.increment(problem)) {
        if (is_folder(entry->path())) names.push_back(entry->path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string trimmed(std::string text) {
    const char* white = " \t\r\n";
    text.erase(text.find_last_not_of(white) + 1);
    text.erase(0, text.find_first_not_of(white));
    return text;
}

Result<ModelFolder> choose_snapshot(const fs::path& root, const std::string& revision) {
    const std::string repository = repository_of(root.filename());
    const std::string wanted = revision.empty() ? "main" : revision;
    const std::string shown = printable(root.string());
    const fs::path ref = root / "refs" / wanted;
    for (const auto& closed : {no_permission(root / "snapshots"), no_permission(ref),
                               no_permission(root / "snapshots", R_OK | X_OK)}) {
        if (closed) return tl::unexpected(*closed);
    }
    const std::vector<std::string> snapshots = snapshots_in(root);
    const std::string cure = cat("; run: hf download ", repository.empty() ? "REPO" : repository,
                                 revision.empty() ? "" : cat(" --revision ", printable(revision)));

    std::string commit = wanted;
    if (is_there(ref)) {
        auto text = read_text(ref, ref_bytes_max);
        if (!text) return tl::unexpected(std::move(text).error());
        commit = trimmed(*text);
        if (commit.empty() || commit.find('/') != commit.npos) {
            return fail(Code::corrupt,
                        cat(printable(ref.string()), ": contains no commit id", cure));
        }
    } else if (revision.empty() && snapshots.size() == 1) {
        commit = snapshots.front();  // downloaded by commit: there is no branch file
    }
    if (std::find(snapshots.begin(), snapshots.end(), commit) != snapshots.end()) {
        const fs::path snapshot = root / "snapshots" / commit;
        if (auto closed = no_permission(snapshot, X_OK)) return tl::unexpected(std::move(*closed));
        if (auto own = refuse_foreign_model(snapshot); !own) return tl::unexpected(own.error());
        return ModelFolder{snapshot, repository, revision};
    }
    std::string have = snapshots.empty() ? " (there are no snapshots)" : " (available:";
    for (const std::string& name : snapshots) have += cat(" ", printable(name));
    if (!snapshots.empty()) have += ")";
    return fail(Code::not_found,
                cat(shown, ": no snapshot of revision ", printable(wanted), have, cure));
}

Result<ModelFolder> find_in_cache(const std::string& id, const std::string& revision) {
    const size_t slash = id.find('/');
    const std::string name =
        cat(repository_prefix, id.substr(0, slash), "--", id.substr(slash + 1));
    const fs::path root = hub_cache() / name;
    if (auto closed = no_permission(root)) return tl::unexpected(std::move(*closed));
    if (is_folder(root)) return choose_snapshot(root, revision);
    return fail(Code::not_found,
                cat("\"", id, "\" is neither a folder here nor in the Hugging Face cache (",
                    printable(root.string()), "); run: hf download ", id));
}

}  // namespace

fs::path hub_cache() {
    if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) {
        return expand_home(cache);
    }
    if (const std::string home = environment("HF_HOME"); !home.empty()) {
        return expand_home(home) / "hub";
    }
    if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty()) {
        return expand_home(cache) / "huggingface" / "hub";
    }
    return expand_home("~/.cache/huggingface/hub");
}

Result<ModelFolder> find_model_folder(const std::string& location, const std::string& revision) {
    if (location.empty())
        return fail(Code::usage, "no model given; name a folder or a Hugging Face id");
    std::error_code problem;
    fs::path path = fs::absolute(expand_home(location), problem);
    if (problem) return fail(Code::usage, cat(printable(location), ": ", problem.message()));
    if (!path.has_filename()) path = path.parent_path();  // "folder/"
    if (auto closed = no_permission(path, is_folder(path) ? X_OK : 0)) {
        return tl::unexpected(std::move(*closed));
    }
    if (is_folder(path)) {
        const bool is_root = is_folder(path / "snapshots") && !is_there(path / "config.json");
        if (is_root) return choose_snapshot(path, revision);
        if (auto own = refuse_foreign_model(path); !own) return tl::unexpected(own.error());
        return ModelFolder{path, repository_around(path), revision};
    }
    if (is_there(path)) {
        if (auto own = refuse_foreign_model(path); !own) return tl::unexpected(own.error());
        return fail(Code::usage, cat(printable(location),
                                     " is a file; give the folder that holds the checkpoint: ",
                                     printable(path.parent_path().string())));
    }
    if (is_hub_id(location)) return find_in_cache(location, revision);
    return fail(Code::not_found, cat(printable(location),
                                     ": no such folder; name a checkpoint folder, or the Hugging "
                                     "Face id (ORG/NAME) of a model in the cache"));
}

std::string shell_quoted(std::string text) {
    const bool controls = std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    });
    if (controls) text = printable(text);
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("-_./").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string fetch_command(const ModelFolder& folder, std::span<const std::string> files) {
    std::string command =
        cat("hf download ", folder.repository.empty() ? "REPO" : folder.repository);
    if (files.size() <= 8) {  // else all: complete files are not downloaded again
        for (const std::string& file : files) command += cat(" ", shell_quoted(file));
    }
    if (!folder.revision.empty()) command += cat(" --revision ", shell_quoted(folder.revision));
    if (!folder.repository.empty()) return command;
    return cat(command, " --local-dir ", shell_quoted(folder.path.string()));
}

std::string fetch_advice(const ModelFolder& folder, std::span<const std::string> files) {
    return cat(files.size() == 1 ? "fetch it: " : "fetch them: ", fetch_command(folder, files));
}

}  // namespace sluice
