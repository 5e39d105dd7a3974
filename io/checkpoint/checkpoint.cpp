#include "io/checkpoint/checkpoint.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "io/checkpoint/file_kind.h"
#include "io/checkpoint/model_folders.h"
#include "io/checkpoint/shard_names.h"
#include "io/checkpoint/weight_index.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t config_bytes_max = 16u << 20;

std::string shown(const fs::path& path) {
    return printable(path.string());
}

std::string in_quotes(std::string_view name) {
    return cat("\"", printable(name), "\"");
}

uint32_t usable_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

// What a file that should be JSON text is instead ("empty", "a git-lfs pointer ..."); an empty
// string if nothing speaks against JSON. Fails if the file cannot be opened or read.
Result<std::string> not_json(const fs::path& path) {
    auto file = File::open(path, Access::buffered);
    if (!file) return tl::unexpected(std::move(file).error());
    std::string head(std::min<uint64_t>(file_kind_bytes, file->size()), '\0');
    if (auto read = file->read(0, reinterpret_cast<std::byte*>(head.data()), head.size()); !read) {
        return tl::unexpected(std::move(read).error());
    }
    const size_t start = head.find_first_not_of(" \t\r\n");
    if (start == head.npos) return std::string("empty");
    if (head[start] == '{') return std::string();
    return describe_file_kind(head, head.size());
}

}  // namespace

// Checkpoint::open() step by step. Errors that a download cures are made by fatal(), which appends
// the command that gets the files concerned.
class CheckpointOpener {
 public:
    explicit CheckpointOpener(const CheckpointOptions& options) : options_(options) {}

    Result<Checkpoint> open();

 private:
    struct Shard {
        fs::path path;
        uint32_t drive = 0;  // of folders_
        File file;
        SafetensorsHeader header;
        std::optional<Error> error;
    };

    tl::unexpected<Error> fatal(Code code, std::string problem,
                                std::vector<std::string> files) const;
    tl::unexpected<Error> unread(Error error, const char* name) const;
    Result<void> find_folders();
    Result<void> read_config();
    Result<void> find_companion(const char* name, fs::path& path);
    Result<void> choose_index();
    Result<void> without_index();
    Result<void> find_shards();
    Result<void> read_headers();
    void read_shard(Shard& shard) const;
    Result<void> adopt_tensors();
    Result<void> find_copies();
    Result<void> check_declared();
    Result<void> check_mapped();
    void note_strays();
    void note_numbers();
    void note_total();

    Access access() const { return options_.headers_only ? Access::buffered : options_.access; }
    std::string where() const;
    const std::string& file_name(uint32_t shard) const { return index_.files[shard]; }

    const CheckpointOptions& options_;
    std::vector<ModelFolder> folders_;
    WeightIndex index_;
    bool indexed_ = false;
    std::vector<Shard> shards_;  // in the order of index_.files
    Checkpoint out_;
};

tl::unexpected<Error> CheckpointOpener::fatal(Code code, std::string problem,
                                              std::vector<std::string> files) const {
    return fail(code, cat(problem, "; ", fetch_advice(folders_.front(), files)));
}

// No download command if the cause is permission, the drive or memory: that would not help.
tl::unexpected<Error> CheckpointOpener::unread(Error error, const char* name) const {
    if (error.code == Code::io || error.code == Code::no_memory) {
        return tl::unexpected(std::move(error));
    }
    if (error.code == Code::unsupported) error.message += "; move it elsewhere";
    return fatal(error.code, std::move(error.message), {name});
}

std::string CheckpointOpener::where() const {
    std::string out;
    for (const ModelFolder& folder : folders_)
        out += cat(out.empty() ? "" : ", ", shown(folder.path));
    return out;
}

Result<void> CheckpointOpener::find_folders() {
    if (options_.locations.empty())
        return fail(Code::usage, "no model given; name a folder or a Hugging Face id");
    auto folders = find_folders_of(options_.locations, options_.revision, options_.mirrors);
    if (!folders) return tl::unexpected(std::move(folders).error());
    folders_ = std::move(*folders);
    out_.home_ = folders_.front();
    out_.check_command_ = check_command(options_.locations, options_.revision, options_.mirrors);
    return {};
}

Result<void> CheckpointOpener::find_companion(const char* name, fs::path& path) {
    for (const ModelFolder& folder : folders_) {
        const fs::path candidate = folder.path / name;
        if (!is_entry(candidate)) continue;
        auto kind = not_json(candidate);
        if (!kind) return unread(std::move(kind).error(), name);
        if (!kind->empty()) {
            return fatal(Code::corrupt, cat(shown(candidate), ": the file is ", *kind), {name});
        }
        path = candidate;
        return {};
    }
    return {};
}

Result<void> CheckpointOpener::read_config() {
    fs::path path;
    if (auto found = find_companion("config.json", path); !found) return found;
    if (path.empty()) {
        bool weights = false;
        for (const ModelFolder& folder : folders_) {
            weights =
                weights || is_entry(folder.path / index_name) || !weight_files(folder.path).empty();
        }
        const char* what = weights ? ": config.json is missing (the weights alone do not identify "
                                     "the model)"
                                   : ": no checkpoint here (no config.json, no safetensors files)";
        return fatal(
            Code::not_found, cat(where(), what),
            weights ? std::vector<std::string>{"config.json"} : std::vector<std::string>());
    }
    auto text = read_text(path, config_bytes_max);
    if (!text) return unread(text.error(), "config.json");
    out_.config_text_ = std::move(*text);
    out_.config_path_ = path;
    return {};
}

// The first folder's index. Another folder may hold a copy of it, but not a different one.
Result<void> CheckpointOpener::choose_index() {
    fs::path chosen;
    std::string chosen_text;
    for (const ModelFolder& folder : folders_) {
        const fs::path path = folder.path / index_name;
        if (!is_entry(path)) continue;
        auto text = read_text(path, 256u << 20);
        if (!text) return unread(text.error(), index_name);
        if (chosen.empty()) {
            chosen = path;
            chosen_text = std::move(*text);
        } else if (*text != chosen_text) {
            return fatal(Code::corrupt,
                         cat(shown(chosen), " and ", shown(path),
                             " differ: the folders are not parts of one download"),
                         {index_name});
        }
    }
    if (chosen.empty()) return without_index();
    auto index = read_weight_index(chosen);
    if (!index) return unread(index.error(), index_name);
    index_ = std::move(*index);
    indexed_ = true;
    return {};
}

Result<void> CheckpointOpener::without_index() {
    size_t others = 0;
    bool lone = false;
    for (const ModelFolder& folder : folders_) {
        if (auto closed = no_permission(folder.path, R_OK)) return tl::unexpected(*closed);
        for (const std::string& name : weight_files(folder.path)) {
            lone = lone || name == lone_name;
            others += shard_number(name) ? 1 : 0;
        }
    }
    if (lone && others == 0) {
        index_.files = {lone_name};
        return {};
    }
    if (others) {
        return fatal(Code::not_found,
                     cat(where(), ": ", index_name, " is missing (there are ", others,
                         " numbered shards, but nothing says which of them belong together)"),
                     {index_name});
    }
    return fatal(Code::not_found,
                 cat(where(), ": no weights (neither ", index_name, " nor ", lone_name, ")"), {});
}

Result<void> CheckpointOpener::find_shards() {
    std::vector<std::string> missing, twice;
    bool dangling = false;
    for (const std::string& name : index_.files) {
        Shard shard;
        for (uint32_t drive = 0; drive < folders_.size(); ++drive) {
            const fs::path path = folders_[drive].path / name;
            if (auto closed = no_permission(path)) return tl::unexpected(std::move(*closed));
            dangling = dangling || (is_entry(path) && !is_there(path));
            if (!is_there(path)) continue;
            if (shard.path.empty()) {
                shard.path = path;
                shard.drive = drive;
            } else {
                twice.push_back(path.string());
            }
        }
        if (shard.path.empty()) missing.push_back(name);
        shards_.push_back(std::move(shard));
    }
    if (!twice.empty()) {
        out_.notes_.push_back(
            cat("shards not read, because an earlier folder has them too: ", list_names(twice)));
    }
    if (missing.empty()) return {};
    if (auto mirrored = check_mirrors_for(missing, options_.mirrors); !mirrored) return mirrored;
    return fatal(
        Code::not_found,
        cat(where(), ": ", missing.size(), " of ", index_.files.size(),
            " weight files in the index ", missing.size() == 1 ? "is" : "are",
            " missing: ", list_names(missing),
            dangling ? " (a link to a missing file: an interrupted download or a cleaned cache)"
                     : ""),
        missing);
}

void CheckpointOpener::read_shard(Shard& shard) const {
    auto file = File::open(shard.path, access());
    if (!file) {
        shard.error = std::move(file).error();
        if (shard.error->code == Code::unsupported) shard.error->message += "; move it elsewhere";
        return;
    }
    shard.file = std::move(*file);
    shard.file.set_drive(shard.drive);
    auto header = read_safetensors_header(shard.file);
    if (!header) {
        shard.error = std::move(header).error();
        return;
    }
    shard.header = std::move(*header);
}

Result<void> CheckpointOpener::read_headers() {
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t i = next++; i < shards_.size(); i = next++) read_shard(shards_[i]);
    };
    std::vector<std::thread> helpers;
    const size_t wanted = std::min<size_t>(usable_cores(), shards_.size());
    try {
        while (helpers.size() + 1 < wanted) helpers.emplace_back(work);
    } catch (const std::system_error&) {
        // Fewer threads, same work.
    }
    work();
    for (std::thread& helper : helpers) helper.join();

    std::vector<std::string> bad;
    const Error* first = nullptr;
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        if (!shards_[i].error) continue;
        if (!first) first = &*shards_[i].error;
        bad.push_back(file_name(i));
    }
    if (!first) return {};
    std::string message = first->message;
    if (bad.size() > 1) {
        message += cat(" (and ", bad.size() - 1,
                       " more files with errors: ", list_names({bad.begin() + 1, bad.end()}), ")");
    }
    if (first->code != Code::corrupt) return fail(first->code, message);
    return fatal(Code::corrupt, message, bad);
}

Result<void> CheckpointOpener::find_copies() {
    std::vector<MirroredShard> originals;
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        originals.push_back({file_name(i), &shards_[i].file, shards_[i].header.data_begin});
    }
    out_.drives_ = static_cast<uint32_t>(folders_.size());
    auto mirrors = open_mirrors(options_.mirrors, originals, access(), out_.drives_);
    if (!mirrors) return within("--mirror", std::move(mirrors).error());
    out_.notes_.insert(out_.notes_.end(), mirrors->notes.begin(), mirrors->notes.end());
    out_.mirrors_ = std::move(*mirrors);
    return {};
}

Result<void> CheckpointOpener::adopt_tensors() {
    size_t count = 0;
    for (const Shard& shard : shards_) count += shard.header.tensors.size();
    out_.tensors_.reserve(count);
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        for (TensorEntry& entry : shards_[i].header.tensors) {
            out_.tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape), i,
                                     entry.offset, entry.bytes});
        }
    }
    out_.by_name_.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
        const Tensor& tensor = out_.tensors_[i];
        const auto [at, is_new] = out_.by_name_.try_emplace(tensor.name, i);
        if (is_new) continue;
        const std::string& a = file_name(out_.tensors_[at->second].shard);
        const std::string& b = file_name(tensor.shard);
        return fatal(Code::corrupt,
                     cat(where(), ": tensor ", in_quotes(tensor.name), " is declared by both ",
                         printable(a), " and ", printable(b)),
                     {a, b});
    }
    return {};
}

// Requires that each tensor in the index is declared by the file that the index names.
Result<void> CheckpointOpener::check_mapped() {
    size_t wrong = 0;
    const WeightIndex::Entry* first = nullptr;
    for (const WeightIndex::Entry& entry : index_.entries) {
        const Tensor* tensor = out_.find(entry.tensor);
        if (tensor && tensor->shard == entry.file) continue;
        if (!first) first = &entry;
        ++wrong;
    }
    if (!first) return {};
    const std::string& file = file_name(first->file);
    const Tensor* elsewhere = out_.find(first->tensor);
    std::string message =
        cat(where(), ": the index maps tensor ", in_quotes(first->tensor), " to ", printable(file),
            ", which does not declare it (",
            elsewhere ? printable(file_name(elsewhere->shard)) : "no shard", " does)");
    if (wrong > 1) message += cat(", and ", wrong - 1, " more such tensors");
    return fatal(Code::corrupt, message, {index_name, file});
}

// Requires that each declared tensor is in the index; after check_mapped(), equal counts prove it.
Result<void> CheckpointOpener::check_declared() {
    if (index_.entries.size() == out_.tensors_.size()) return {};
    std::vector<bool> named(out_.tensors_.size());
    for (const WeightIndex::Entry& entry : index_.entries) {
        named[static_cast<size_t>(out_.find(entry.tensor) - out_.tensors_.data())] = true;
    }
    const size_t at =
        static_cast<size_t>(std::find(named.begin(), named.end(), false) - named.begin());
    const size_t more = static_cast<size_t>(std::count(named.begin(), named.end(), false)) - 1;
    const Tensor& tensor = out_.tensors_[at];
    const std::string& file = file_name(tensor.shard);
    return fatal(
        Code::corrupt,
        cat(where(), ": ", printable(file), " declares tensor ", in_quotes(tensor.name),
            ", which is not in the index", more ? cat(", and ", more, " more such tensors") : ""),
        {index_name, file});
}

void CheckpointOpener::note_strays() {
    std::vector<std::string> strays;
    for (const ModelFolder& folder : folders_) {
        for (const std::string& name : weight_files(folder.path)) {
            if (!std::binary_search(index_.files.begin(), index_.files.end(), name)) {
                strays.push_back(folders_.size() > 1 ? (folder.path / name).string() : name);
            }
        }
    }
    if (strays.empty()) return;
    out_.notes_.push_back(
        cat("files not read, because the index does not list them: ", list_names(strays)));
}

// Notes numbers missing from the series of shard names: most likely an index that was shortened.
void CheckpointOpener::note_numbers() {
    std::vector<bool> seen;
    uint32_t count = 0;
    for (const std::string& name : index_.files) {
        const auto number = shard_number(name);
        if (!number || number->number == 0 || number->number > number->count ||
            (count && number->count != count)) {
            return;
        }
        count = number->count;
        seen.resize(count + 1);
        seen[number->number] = true;
    }
    std::vector<std::string> absent;
    for (uint32_t i = 1; i <= count; ++i) {
        if (!seen[i]) absent.push_back(cat(i));
    }
    if (absent.empty()) return;
    out_.notes_.push_back(cat("the index does not list shard ", list_names(absent), " of ", count));
}

void CheckpointOpener::note_total() {
    uint64_t bytes = 0;
    for (const Tensor& tensor : out_.tensors_) bytes += tensor.bytes;
    if (!index_.total_size || *index_.total_size == bytes) return;
    out_.notes_.push_back(cat("the index states a total of ", *index_.total_size,
                              " bytes, but its tensors have ", bytes));
}

Result<Checkpoint> CheckpointOpener::open() {
    using Step = Result<void> (CheckpointOpener::*)();
    for (const Step step : {&CheckpointOpener::find_folders, &CheckpointOpener::read_config,
                            &CheckpointOpener::choose_index, &CheckpointOpener::find_shards,
                            &CheckpointOpener::read_headers, &CheckpointOpener::adopt_tensors,
                            &CheckpointOpener::find_copies}) {
        if (auto done = (this->*step)(); !done) return tl::unexpected(std::move(done).error());
    }
    if (indexed_) {
        for (const Step step :
             {&CheckpointOpener::check_mapped, &CheckpointOpener::check_declared}) {
            if (auto done = (this->*step)(); !done) return tl::unexpected(std::move(done).error());
        }
    }
    struct Companion {
        const char* name;
        fs::path* path;
    };
    for (const auto& [name, path] :
         {Companion{"tokenizer.json", &out_.tokenizer_path_},
          Companion{"generation_config.json", &out_.generation_config_path_}}) {
        if (auto done = find_companion(name, *path); !done) {
            return tl::unexpected(std::move(done).error());
        }
    }
    warn_unread(folders_, index_.files);
    note_strays();
    note_numbers();
    note_total();
    for (Shard& shard : shards_) out_.shards_.push_back(std::move(shard.file));
    return std::move(out_);
}

Result<Checkpoint> Checkpoint::open(const CheckpointOptions& options) {
    return CheckpointOpener(options).open();
}

const Tensor* Checkpoint::find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

Result<const Tensor*> Checkpoint::require(std::string_view name) const {
    if (const Tensor* tensor = find(name)) return tensor;
    // Tensors with similar names tell which shard it belongs to.
    std::string_view stem = name;
    const Tensor* neighbour = nullptr;
    while (!neighbour && stem.find('.') != stem.npos) {
        stem = stem.substr(0, stem.rfind('.'));
        for (const Tensor& tensor : tensors_) {
            if (tensor.name.starts_with(stem) && tensor.name.size() > stem.size() &&
                tensor.name[stem.size()] == '.') {
                neighbour = &tensor;
                break;
            }
        }
    }
    const std::string what = cat(shown(folder()), ": tensor ", in_quotes(name),
                                 " is neither in a shard nor in the index");
    if (!neighbour) return fail(Code::not_found, cat(what, "; ", cure({index_name})));
    const std::string file = shards_[neighbour->shard].path().filename().string();
    return fail(Code::not_found, cat(what, "; it belongs to ", printable(file), ", beside ",
                                     in_quotes(neighbour->name), "; ", cure({file})));
}

std::string Checkpoint::cure(const std::vector<std::string>& files) const {
    return fetch_advice(home_, files);
}

}  // namespace sluice
