#include "tools/inspect.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "engine/model/tensor_classes.h"
#include "io/checkpoint/shard_names.h"
#include "io/checksum.h"
#include "io/clock.h"
#include "io/format.h"
#include "io/mount.h"
#include "io/output_file.h"
#include "io/path_access.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/answer/messages.h"
#include "tools/inspect/value_check.h"
#include "tools/options/user_text.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {
namespace {

constexpr uint64_t hash_file_bytes_max = 16u << 20;
constexpr size_t names_shown_max = 5;

const char* access_name(Access access) {
    return access == Access::direct ? "O_DIRECT" : "buffered";
}

std::vector<std::string> checks_passed(const Checkpoint& checkpoint) {
    return {cat(checkpoint.shards().size(),
                " headers: known dtypes, every range inside its file, "
                "bytes = dtype x shape, no overlap, no gap, no extra bytes"),
            cat(checkpoint.tensors().size(),
                " tensors: each in exactly one shard, index and headers agree")};
}

TensorClass total_of(const std::vector<TensorClass>& classes) {
    TensorClass all{.name = "total"};
    for (const TensorClass& c : classes) {
        all.tensors += c.tensors;
        all.bytes += c.bytes;
    }
    return all;
}

void add_class_table(std::string& out, const TensorListing& listing) {
    std::vector<TensorClass> rows = listing.classes;
    rows.push_back(total_of(rows));
    size_t width = 23;
    for (const TensorClass& row : rows) width = std::max(width, row.name.size());
    out += formatted("{:<{}}{:>10}{:>12}{:>16}\n", "class", width, "tensors", "size", "bytes");
    for (const TensorClass& row : rows) {
        out += formatted("{:<{}}{:>10}{:>12}{:>16}\n", row.name, width, row.tensors,
                         size_text(row.bytes), row.bytes);
    }
    const std::vector<std::string>& strange = listing.unaccounted;
    for (size_t i = 0; i < strange.size() && i < names_shown_max; ++i) {
        out += cat("  unaccounted: ", strange[i], "\n");
    }
    if (strange.size() > names_shown_max) {
        out += cat("  unaccounted: ", strange.size() - names_shown_max, " more\n");
    }
}

void add_shard_table(std::string& out, const Checkpoint& checkpoint, const HashRun* hashes) {
    size_t width = 5;
    for (const File& file : checkpoint.shards()) {
        width = std::max(width, printable(file.path().filename().string()).size());
    }
    out += formatted("{:<{}}{:>12}  access    align  {}drive, file system\n", "shard", width,
                     "size", hashes ? formatted("{:<18}", "xxh3") : "");
    for (size_t i = 0; i < checkpoint.shards().size(); ++i) {
        const File& file = checkpoint.shards()[i];
        const Mount mount = mount_of(file.path());
        const std::string drive = drive_name(file.identity().device);
        out += formatted("{:<{}}{:>12}  {:<8}{:>7}  ", printable(file.path().filename().string()),
                         width, size_text(file.size()), access_name(file.access()),
                         file.own_alignment());
        if (hashes) {
            const ShardHash& hash = hashes->shards[i];
            out += formatted("{:<18}", hash.error ? "unreadable" : checksum_text(hash.hash));
        }
        out += cat(drive, drive.empty() ? "" : ", ", printable(mount.type), " on ",
                   printable(mount.point), "\n");
    }
}

double gigabytes_per_second(const HashRun& run) {
    return run.seconds > 0 ? static_cast<double>(run.bytes) / 1e9 / run.seconds : 0;
}

std::string rate_text(const HashRun& run) {
    return formatted("{:.2f} s, {:.2f} GB/s", run.seconds, gigabytes_per_second(run));
}

void write_shards(JsonWriter& json, const Checkpoint& checkpoint, const HashRun* hashes) {
    std::vector<uint64_t> tensors(checkpoint.shards().size());
    for (const Tensor& tensor : checkpoint.tensors()) ++tensors[tensor.shard];
    json.key("shards").begin_array();
    for (size_t i = 0; i < tensors.size(); ++i) {
        const File& file = checkpoint.shards()[i];
        const Mount mount = mount_of(file.path());
        json.begin_object()
            .member("file", file.path().filename().string())
            .member("folder", file.path().parent_path().string())
            .member("bytes", file.size())
            .member("tensors", tensors[i])
            .member("access", access_name(file.access()))
            .member("alignment", file.own_alignment())
            .member("drive", drive_name(file.identity().device))
            .member("file_system", mount.type)
            .member("mount", mount.point);
        if (hashes && hashes->shards[i].error) {
            json.member("error", hashes->shards[i].error->message);
        } else if (hashes) {
            json.member("xxh3", checksum_text(hashes->shards[i].hash));
        }
        json.end_object();
    }
    json.end_array();
}

// A progress line on stderr, updated a few times per second; only on a terminal.
class Progress {
 public:
    explicit Progress(uint64_t total) : total_(total), shown_(isatty(2) == 1) {}
    ~Progress() {
        if (drawn_) std::fputs("\r\033[K", stderr);
    }
    void show(uint64_t done) {
        const auto now = Clock::now();
        if (!shown_ || now - last_ < std::chrono::milliseconds(250)) return;
        last_ = now;
        drawn_ = true;
        std::fprintf(stderr, "\r\033[Kreading: %s of %s", size_text(done).c_str(),
                     size_text(total_).c_str());
    }

 private:
    uint64_t total_;
    bool shown_, drawn_ = false;
    Clock::time_point last_ = Clock::now();
};

Result<HashRun> check_bytes(const Checkpoint& checkpoint, const RingOptions& ring,
                            ValueCheck& values) {
    uint64_t total = 0;
    for (const File& file : checkpoint.shards()) total += file.size();
    Progress progress(total);
    return hash_shards(
        checkpoint.shards(), ring,
        [&](uint64_t done) {
            progress.show(done);
            return !interrupt_requested();
        },
        [&](uint32_t shard, uint64_t offset, std::span<const std::byte> bytes) {
            values.look(shard, offset, bytes);
        });
}

// Reads the mirrors' copies too. A copy that differs from its original is reported in one line.
Result<void> check_mirrors(const Checkpoint& checkpoint, const RingOptions& ring,
                           const HashRun& originals) {
    size_t wrong = 0;
    for (size_t i = 0; i < checkpoint.copies().size(); ++i) {
        if (checkpoint.copies()[i].empty() || originals.shards[i].error) continue;
        auto run = hash_shards(checkpoint.copies()[i], ring,
                               [](uint64_t) { return !interrupt_requested(); });
        if (!run) return tl::unexpected(std::move(run).error());
        for (size_t copy = 0; copy < run->shards.size(); ++copy) {
            const ShardHash& hash = run->shards[copy];
            if (hash.error) return tl::unexpected(*hash.error);
            if (hash.hash == originals.shards[i].hash) continue;
            ++wrong;
            std::fprintf(stderr, "sluice: %s: hash %s, the original has %s\n",
                         printable(checkpoint.copies()[i][copy].path().string()).c_str(),
                         checksum_text(hash.hash).c_str(),
                         checksum_text(originals.shards[i].hash).c_str());
        }
    }
    if (wrong == 0) return {};
    return fail(Code::corrupt, cat(wrong, wrong == 1 ? " file" : " files",
                                   " in the mirrors differ from the model's; copy them again"));
}

// The file of --hashes: one to compare with, or the path of a new one.
struct HashFile {
    std::filesystem::path path;
    std::optional<std::vector<ShardHash>> before;
};

// Called before the long read, so that a bad path is refused at once.
Result<HashFile> open_hash_file(const std::filesystem::path& path) {
    if (auto closed = no_permission(path, R_OK)) return within("--hashes", std::move(*closed));
    std::error_code ignored;
    const bool regular = std::filesystem::is_regular_file(path, ignored);
    if (!regular || std::filesystem::file_size(path, ignored) == 0) {
        auto target = output_file("--hashes", path, hash_file_head);
        if (!target) return tl::unexpected(std::move(target).error());
        return HashFile{std::move(*target), {}};
    }
    auto text = read_text(path, hash_file_bytes_max);
    if (!text) return within("--hashes", named_file_error(std::move(text).error()));
    auto before = parse_hash_file(*text);
    if (!before) {
        return within(cat("--hashes ", printable(path.string())), std::move(before).error());
    }
    return HashFile{path, std::move(*before)};
}

// Writes the hash file, or compares with the existing one. Each difference is a line on stderr.
Result<void> keep_or_compare(const HashFile& file, const HashRun& run) {
    if (!file.before) {
        for (const ShardHash& shard : run.shards) {
            if (shard.error) return {};  // reported as unreadable; a partial file would mislead
        }
        auto done = write_file_whole(file.path, hash_file_text(run.shards), 0644);
        if (done) return done;
        return fail(done.error().code, cat("--hashes ", done.error().message));
    }
    const std::string shown = printable(file.path.string());
    const std::vector<std::string> differences = compare_hashes(run.shards, *file.before);
    if (differences.empty()) return {};
    for (const std::string& line : differences) {
        std::fprintf(stderr, "sluice: differs from %s: %s\n", shown.c_str(), line.c_str());
    }
    return fail(Code::corrupt,
                cat(differences.size(), " of ", run.shards.size(), " shards differ from ", shown));
}

// Values that every run would refuse.
Result<void> report_values(const Checkpoint& checkpoint, const ValueCheck& values) {
    const std::vector<std::string>& lines = values.damaged();
    if (lines.empty()) return {};
    constexpr size_t shown = 20;
    for (size_t i = 0; i < std::min(shown, lines.size()); ++i) {
        std::fprintf(stderr, "sluice: %s\n", lines[i].c_str());
    }
    std::vector<std::string> files;
    for (const uint32_t shard : values.shards()) {
        files.push_back(checkpoint.shards()[shard].path().filename().string());
    }
    return fail(Code::corrupt,
                cat(lines.size(), lines.size() == 1 ? " tensor holds" : " tensors hold",
                    " values that cannot be weights; damaged: ", list_names(files), "; ",
                    checkpoint.cure(files)));
}

int report_unreadable(const HashRun& run) {
    int code = exit_ok;
    for (const ShardHash& shard : run.shards) {
        if (shard.error) code = report_error(*shard.error);
    }
    return code;
}

}  // namespace

TensorListing list_tensors(const Checkpoint& checkpoint) {
    const auto unclassified = [&](const Error& error) {
        TensorClass all{.name = "unclassified"};
        for (const Tensor& tensor : checkpoint.tensors()) {
            ++all.tensors;
            all.bytes += tensor.bytes;
        }
        return TensorListing{
            .classes = {std::move(all)},
            .unaccounted = {},
            .note = cat("tensors are not classified: ",
                        printable(checkpoint.config_path().string()), ": ", error.message)};
    };
    const auto config = parse_config(checkpoint.config_text());
    if (!config) return unclassified(config.error());
    const auto model = find_model(config->model_type);
    if (!model) return unclassified(model.error());
    Weights weights;
    const auto specs = (*model)->describe(*config, weights);
    ClassifiedTensors found = classify_tensors(checkpoint, *config, **model, specs);
    TensorListing listing{.classes = std::move(found.classes), .unaccounted = {}, .note = {}};
    if (found.unknown.empty()) return listing;
    TensorClass unknown{.name = "unaccounted", .home = Home::unused};
    for (const Tensor* tensor : found.unknown) {
        ++unknown.tensors;
        unknown.bytes += tensor->bytes;
        listing.unaccounted.push_back(printable(tensor->name));
    }
    listing.classes.push_back(std::move(unknown));
    return listing;
}

std::string inspect_text(const Checkpoint& checkpoint, const HashRun* hashes) {
    std::string out = cat(printable(checkpoint.folder().string()), "\n\n");
    const TensorListing listing = list_tensors(checkpoint);
    add_class_table(out, listing);
    out += '\n';
    add_shard_table(out, checkpoint, hashes);
    out += '\n';
    for (const std::string& check : checks_passed(checkpoint)) out += cat("checked: ", check, "\n");
    if (hashes) {
        out += cat("read: ", size_text(hashes->bytes), " in ", rate_text(*hashes), " (",
                   hashes->engine, ", hashes are XXH3)\n");
    }
    if (!listing.note.empty()) out += cat("note: ", listing.note, "\n");
    if (checkpoint.tokenizer_path().empty()) out += "note: tokenizer.json is missing\n";
    for (const std::string& note : checkpoint.notes()) out += cat("note: ", note, "\n");
    return out;
}

std::string inspect_json(const Checkpoint& checkpoint, const HashRun* hashes) {
    JsonWriter json;
    json.begin_object().member("folder", checkpoint.folder().string());
    json.key("classes").begin_array();
    const TensorListing listing = list_tensors(checkpoint);
    for (const TensorClass& c : listing.classes) {
        json.begin_object()
            .member("class", c.name)
            .member("tensors", c.tensors)
            .member("bytes", c.bytes)
            .end_object();
    }
    const TensorClass all = total_of(listing.classes);
    json.end_array().member("tensors", all.tensors).member("bytes", all.bytes);
    write_shards(json, checkpoint, hashes);
    const auto list = [&](const char* name, const std::vector<std::string>& texts) {
        json.key(name).begin_array();
        for (const std::string& text : texts) json.value(text);
        json.end_array();
    };
    list("unaccounted", listing.unaccounted);
    list("checks", checks_passed(checkpoint));
    std::vector<std::string> notes = checkpoint.notes();
    if (!listing.note.empty()) notes.insert(notes.begin(), listing.note);
    list("notes", notes);
    json.member("tokenizer", !checkpoint.tokenizer_path().empty());
    if (hashes) {
        json.key("read")
            .begin_object()
            .member("bytes", hashes->bytes)
            .member("seconds", hashes->seconds)
            .member("gb_s", gigabytes_per_second(*hashes))
            .member("engine", hashes->engine)
            .end_object();
    }
    return json.end_object().text() + "\n";
}

int run_inspect(const InspectOptions& options) {
    install_signals(SecondPress::leaves);
    auto checkpoint = Checkpoint::open(options.checkpoint);
    if (!checkpoint) return report_error(checkpoint.error());
    std::optional<HashFile> hash_file;
    if (!options.hash_file.empty()) {
        auto opened = open_hash_file(options.hash_file);
        if (!opened) return report_error(opened.error());
        hash_file = std::move(*opened);
    }
    std::optional<HashRun> hashes;
    ValueCheck values(*checkpoint);
    if (options.check) {
        auto run = check_bytes(*checkpoint, options.ring, values);
        if (!run) return report_error(run.error());
        hashes = std::move(*run);
    }
    const HashRun* shown = hashes ? &*hashes : nullptr;
    Output output(1);
    const std::string text =
        options.json ? inspect_json(*checkpoint, shown) : inspect_text(*checkpoint, shown);
    if (auto written = output.write(text); !written) return report_error(written.error());
    if (hashes) {
        int code = exit_ok;
        if (auto same = check_mirrors(*checkpoint, options.ring, *hashes); !same) {
            code = report_error(same.error());
        }
        if (hash_file) {
            const MustFinish whole;
            if (auto same = keep_or_compare(*hash_file, *hashes); !same) {
                code = report_error(same.error());
            }
        }
        if (auto fit = report_values(*checkpoint, values); !fit) code = report_error(fit.error());
        if (auto ids = check_ids(*checkpoint); !ids) code = report_error(ids.error());
        if (const int unreadable = report_unreadable(*hashes)) code = unreadable;
        if (code != exit_ok) return code;
    }
    return output.reader_gone() ? exit_reader_gone : exit_ok;
}

int run_inspect(const Options& options) {
    InspectOptions inspect{};
    inspect.checkpoint.locations = options.engine.locations;
    inspect.checkpoint.revision = options.engine.revision;
    inspect.checkpoint.mirrors = options.engine.mirrors;
    inspect.ring.engine = options.engine.io;
    inspect.ring.depth = options.engine.ring_depth;
    inspect.json = options.json;
    inspect.check = options.check;
    inspect.hash_file = options.hashes;
    return run_inspect(inspect);
}

}  // namespace sluice
