#include "tools/plan/plan_model.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "cache/device_experts.h"
#include "engine/model/model_shape.h"
#include "engine/model/tensor_classes.h"
#include "io/mount.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t block = 4096;            // direct reads are widened to whole ones
constexpr uint64_t device_alignment = 256;  // of an expert's tensors in VRAM

uint64_t free_bytes(const std::filesystem::path& path) {
    struct statvfs info;
    if (::statvfs(path.c_str(), &info) != 0) return 0;
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

PlannedDrive drive_at(const std::filesystem::path& path, const Mount& mount, uint64_t device) {
    std::string name = drive_name(device);
    if (name.empty() && mount.source.starts_with("/dev/")) name = printable(mount.source.substr(5));
    return {.name = std::move(name),
            .file_system = cat(printable(mount.type), " on ", printable(mount.point)),
            .free = free_bytes(path)};
}

void find_drives(PlanModel& model) {
    std::vector<uint64_t> devices;
    for (const File& file : model.loaded.runtime.checkpoint.shards()) {
        const uint64_t device = file.identity().device;
        const auto found = std::find(devices.begin(), devices.end(), device);
        const auto at = static_cast<size_t>(found - devices.begin());
        if (found == devices.end()) {
            devices.push_back(device);
            model.drives.push_back(drive_at(file.path(), mount_of(file.path()), device));
        }
        ++model.drives[at].shards;
        model.drives[at].shard_bytes += file.size();
    }
}

// Without files: every drive mounted for writing, the one with most free space first.
void find_room(PlanModel& model) {
    std::vector<std::string> sources;
    for (const Mount& mount : all_mounts()) {
        struct stat info;
        struct statvfs system;
        if (!mount.source.starts_with("/dev/")) continue;
        if (std::find(sources.begin(), sources.end(), mount.source) != sources.end()) continue;
        if (::stat(mount.point.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
        if (::statvfs(mount.point.c_str(), &system) != 0 || (system.f_flag & ST_RDONLY)) continue;
        sources.push_back(mount.source);
        model.drives.push_back(drive_at(mount.point, mount, info.st_dev));
    }
    std::sort(model.drives.begin(), model.drives.end(),
              [](const PlannedDrive& a, const PlannedDrive& b) { return a.free > b.free; });
}

// An expert of a shape: its codes and its scales are two ranges of a file, as in the released
// files, each widened to whole blocks at both ends.
void size_shape_experts(PlanModel& model) {
    uint64_t ranges[2] = {0, 0};
    for (const ExpertShape& part : expert_shapes(model.config())) {
        const uint64_t bytes = part.shape[0] * part.shape[1];
        ranges[part.storage == Storage::e8m0] += bytes;
        model.device_slot_bytes += round_up(bytes, device_alignment);
    }
    for (uint64_t bytes : ranges) {
        model.expert_bytes += bytes;
        model.expert_read_bytes += round_up(bytes, block) + block;
    }
    model.slot_bytes = model.expert_read_bytes;
}

void size_file_experts(PlanModel& model) {
    const ExpertMap& map = *model.loaded.runtime.experts;
    const ReadPlan& plan = map.plan({0, 0});
    model.expert_bytes = map.expert_bytes({0, 0});
    for (const PlannedRead& read : plan.reads) model.expert_read_bytes += read.needed;
    model.slot_bytes = map.slot_bytes();
    model.device_slot_bytes = DeviceExperts::slot_bytes(map);
}

// Codes and scales of a table follow each other in the specs.
void make_shape_tables(PlanModel& model) {
    for (const TensorSpec& spec : model.specs) {
        if (spec.home != Home::table) continue;
        const auto row = static_cast<uint32_t>(spec.shape[1]);
        if (spec.storage == Storage::fp8) {
            model.tables.push_back({.file = nullptr,
                                    .codes_offset = 0,
                                    .codes_bytes = row,
                                    .scales_offset = 0,
                                    .scales_bytes = 0,
                                    .rows = spec.shape[0]});
        } else {
            model.tables.back().scales_bytes = row;
        }
    }
}

Result<void> read_shape(PlanModel& model, const EngineOptions& options, const std::string& shape) {
    auto text = shape_config(shape);
    if (!text) return within("--shape", text.error());
    auto config = parse_config(*text);
    if (!config) return tl::unexpected(config.error());
    Runtime& rt = model.loaded.runtime;
    rt.options = options;
    rt.config = std::move(*config);
    auto description = find_model(rt.config.model_type);
    if (!description) return tl::unexpected(description.error());
    model.name = shape;
    model.specs = (*description)->describe(rt.config, rt.weights);
    model.classes = described_classes(rt.config, model.specs);
    size_shape_experts(model);
    make_shape_tables(model);
    find_room(model);
    model.notes.push_back(
        "a shape without files: each expert is assumed to be two ranges of one file");
    for (const UnusedClass& unused : (*description)->unused) {
        model.notes.push_back(cat("unused, so not counted: ", unused.what));
    }
    return {};
}

Result<void> read_files(PlanModel& model, const EngineOptions& options) {
    auto described = describe_model(options, model.loaded);
    if (!described) return tl::unexpected(described.error());
    Runtime& rt = model.loaded.runtime;
    model.files = true;
    model.name = printable(rt.checkpoint.folder().filename().string());
    model.specs = std::move(described->specs);
    model.notes = model.loaded.notes;
    model.tables = rt.weights.tables;
    size_file_experts(model);
    find_drives(model);
    model.classes = std::move(described->classes);
    return {};
}

}  // namespace

uint64_t PlanModel::bytes(Home home) const {
    uint64_t sum = 0;
    for (const TensorClass& c : classes) sum += c.home == home ? c.bytes : 0;
    return sum;
}

uint64_t PlanModel::experts() const {
    return static_cast<uint64_t>(config().layers) * static_cast<uint64_t>(config().experts);
}

uint64_t PlanModel::token_experts() const {
    return static_cast<uint64_t>(config().layers) * static_cast<uint64_t>(config().top_k);
}

Result<std::unique_ptr<PlanModel>> model_to_plan(const EngineOptions& options,
                                                 const std::string& shape) {
    auto model = std::make_unique<PlanModel>();
    auto read = shape.empty() ? read_files(*model, options) : read_shape(*model, options, shape);
    if (!read) return tl::unexpected(read.error());
    if (const int32_t layers = model->config().token_routed_layers; layers > 0) {
        model->notes.push_back(cat(
            "the first ", layers, layers == 1 ? " layer chooses" : " layers choose",
            " experts by the token alone, so reading theirs starts as soon as the token is known"));
    }
    return model;
}

}  // namespace sluice
