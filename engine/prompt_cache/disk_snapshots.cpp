#include "engine/prompt_cache/disk_snapshots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "io/log.h"
#include "io/output_file.h"
#include "io/text.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr size_t kind_digits = 16;
constexpr size_t files_max = 4096;
constexpr std::time_t unfinished_s = 3600;  // without a write: the process that began it is gone
constexpr mode_t others_may_write = 022;

void warn(const fs::path& path, std::string_view what) {
    log::warn_once("prompt cache " + path.string(),
                   cat("--prompt-cache ", printable(path.string()), ": ", what,
                       "; prompts are read again"));
}

// A folder that nobody else may write to.
Result<void> check_own(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        return fail(errno == ENOENT ? Code::not_found : Code::io, errno_text(errno));
    }
    if (!S_ISDIR(status.st_mode)) return fail(Code::io, "is not a folder");
    if (status.st_uid == ::geteuid() && (status.st_mode & others_may_write) == 0) return {};
    return fail(Code::io, "other users may write to it; choose a folder of your own");
}

// Creates a folder for this user only, or makes sure that an existing one is.
Result<void> own_folder(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) == 0) return {};
    const int failed = errno;
    auto own = check_own(path);
    if (!own && own.error().code == Code::not_found) return fail(Code::io, errno_text(failed));
    return own;
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        names.push_back(at->path().filename().string());
    }
    return names;
}

bool is_kind(std::string_view name) {
    return name.size() == kind_digits &&
           name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The temporary name of a file: its name, a dot and six characters.
bool is_unfinished(std::string_view name) {
    constexpr size_t added = 7;
    if (name.size() <= added || name[name.size() - added] != '.') return false;
    return parse_file_name(name.substr(0, name.size() - added)).has_value();
}

struct Stored {
    fs::path path;
    uint64_t bytes;
    timespec used;
};

bool used_before(const Stored& a, const Stored& b) {
    return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                          : a.used.tv_nsec < b.used.tv_nsec;
}

// The complete files of a folder; removes unfinished ones that nobody writes any more.
void list_files(const fs::path& folder, std::vector<Stored>& stored) {
    for (const std::string& name : names_in(folder)) {
        const bool complete = parse_file_name(name).has_value();
        if (!complete && !is_unfinished(name)) continue;
        const fs::path path = folder / name;
        struct stat status {};
        if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
        if (complete) {
            stored.push_back({path, static_cast<uint64_t>(status.st_size), status.st_mtim});
        } else if (std::time(nullptr) - status.st_mtim.tv_sec > unfinished_s) {
            ::unlink(path.c_str());
        }
    }
}

}  // namespace

DiskSnapshots::DiskSnapshots(fs::path folder, std::string kind, uint64_t bytes_max)
    : folder_(std::move(folder)), own_(folder_ / kind), bytes_max_(bytes_max) {}

fs::path DiskSnapshots::path(SnapshotKey key) const {
    return own_ / file_name(key);
}

std::vector<SnapshotKey> DiskSnapshots::keys() const {
    std::vector<SnapshotKey> keys;
    for (const fs::path& folder : {folder_, own_}) {
        if (auto own = check_own(folder); !own) {
            if (own.error().code != Code::not_found) warn(folder_, own.error().message);
            return keys;
        }
    }
    for (const std::string& name : names_in(own_)) {
        if (const auto key = parse_file_name(name)) keys.push_back(*key);
    }
    return keys;
}

Result<SnapshotBytes> DiskSnapshots::read(
    SnapshotKey key, const std::function<Result<void>(const SnapshotHeader&)>& accept) const {
    return read_snapshot_file(path(key), accept);
}

bool DiskSnapshots::use(SnapshotKey key) const {
    return ::utimensat(AT_FDCWD, path(key).c_str(), nullptr, 0) == 0 ||
           ::access(path(key).c_str(), R_OK) == 0;  // in a read-only folder
}

void DiskSnapshots::remove(SnapshotKey key) const {
    ::unlink(path(key).c_str());
}

Result<void> DiskSnapshots::make_folders() const {
    std::error_code ignored;  // the next call fails, too, and says why
    if (folder_.has_parent_path()) fs::create_directories(folder_.parent_path(), ignored);
    if (auto made = own_folder(folder_); !made) return made;
    return own_folder(own_);
}

bool DiskSnapshots::write(SnapshotKey key, const SnapshotBytes& snapshot) const {
    if (snapshot.size() > bytes_max_) {
        warn(folder_, cat("its limit of ", bytes_max_ >> 20, " MiB is smaller than a snapshot of ",
                          snapshot.size() >> 20, " MiB"));
        return false;
    }
    const fs::path file = path(key);
    std::error_code ignored;
    const std::string_view text(reinterpret_cast<const char*>(snapshot.data()), snapshot.size());
    auto written = make_folders();
    if (written) written = write_file_whole(file, text);
    if (!written && !fs::exists(own_, ignored)) {  // another process removed it: it was empty
        written = make_folders();
        if (written) written = write_file_whole(file, text);
    }
    if (!written) {
        warn(folder_, cat("cannot be written: ", written.error().message));
        return false;
    }
    trim(file);
    return true;
}

void DiskSnapshots::trim(const fs::path& written) const {
    std::vector<Stored> stored;
    std::vector<fs::path> others;
    for (const std::string& name : names_in(folder_)) {
        if (!is_kind(name)) continue;
        list_files(folder_ / name, stored);
        if (folder_ / name != own_) others.push_back(folder_ / name);
    }
    std::ranges::sort(stored, used_before);
    uint64_t bytes = 0;
    for (const Stored& file : stored) bytes += file.bytes;
    size_t left = stored.size();
    for (const Stored& file : stored) {
        if (bytes <= bytes_max_ && left <= files_max) break;
        if (file.path == written) continue;
        ::unlink(file.path.c_str());
        bytes -= file.bytes;
        --left;
    }
    for (const fs::path& folder : others) ::rmdir(folder.c_str());  // only empty ones go
}

}  // namespace sluice
