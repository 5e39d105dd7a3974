#include "io/checkpoint/model_folders.h"

#include <algorithm>
#include <set>

#include "io/checkpoint/shard_names.h"
#include "io/log.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

bool has(const ModelFolder& folder, const std::string& name) {
    return is_there(folder.path / name);
}

// A set of paths, compared with their links resolved.
class Distinct {
 public:
    bool add(const fs::path& path) {
        std::error_code error;
        const fs::path canonical = fs::canonical(path, error);
        return error || seen_.insert(canonical).second;
    }

 private:
    std::set<fs::path> seen_;
};

}  // namespace

Result<std::vector<ModelFolder>> find_folders_of(std::span<const std::string> locations,
                                                 const std::string& revision,
                                                 std::span<const std::string> mirrors) {
    std::vector<ModelFolder> out;
    Distinct distinct;
    for (const std::string& location : locations) {
        auto folder = find_model_folder(location, revision);
        if (!folder) return tl::unexpected(std::move(folder).error());
        if (!distinct.add(folder->path)) {
            return fail(Code::usage, cat(printable(folder->path.string()),
                                         ": given twice with -m; name each folder once"));
        }
        out.push_back(std::move(*folder));
    }
    for (const std::string& location : mirrors) {
        auto folder = find_model_folder(location, "");
        if (!folder) return within("--mirror", std::move(folder).error());
        if (distinct.add(folder->path)) continue;
        return fail(Code::usage, cat("--mirror ", printable(folder->path.string()),
                                     ": this folder is already given; a mirror is a copy of the "
                                     "shards in another folder"));
    }
    return out;
}

Result<void> check_mirrors_for(std::span<const std::string> missing,
                               std::span<const std::string> mirrors) {
    for (const std::string& location : mirrors) {
        const auto folder = find_model_folder(location, "");
        if (!folder || !std::all_of(missing.begin(), missing.end(),
                                    [&](const std::string& name) { return has(*folder, name); })) {
            continue;
        }
        return fail(
            Code::not_found,
            cat(list_names({missing.begin(), missing.end()}), ": only in the mirror ",
                printable(folder->path.string()),
                ", but a mirror only adds copies of the model's shards; give the folder with -m"));
    }
    return {};
}

void warn_unread(std::span<const ModelFolder> folders, std::span<const std::string> shards) {
    for (size_t i = 1; i < folders.size(); ++i) {
        size_t held = 0, earlier = 0;
        for (const std::string& name : shards) {
            if (!has(folders[i], name)) continue;
            ++held;
            earlier += std::any_of(folders.begin(), folders.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const ModelFolder& other) { return has(other, name); });
        }
        if (held == 0 || held > earlier) continue;
        const std::string path = printable(folders[i].path.string());
        log::warn_once(cat("unread ", path),
                       cat(path,
                           ": not read, because earlier folders have the same shards; to read "
                           "from both at once, give it with --mirror"));
    }
}

std::string check_command(std::span<const std::string> locations, const std::string& revision,
                          std::span<const std::string> mirrors) {
    std::string out = "sluice inspect";
    for (const std::string& location : locations) {
        out += cat(&location == &locations.front() ? " " : " -m ", shell_quoted(location));
    }
    if (!revision.empty()) out += cat(" --revision ", shell_quoted(revision));
    for (const std::string& mirror : mirrors) {
        out += cat(" --mirror ", shell_quoted(mirror));
    }
    return out + " --check";
}

}  // namespace sluice
