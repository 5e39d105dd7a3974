#include "tools/plan.h"

#include "io/ring/ring_paced.h"
#include "io/text.h"
#include "tools/bench/bench_drive.h"
#include "tools/terminal/exit_code.h"
#include "tools/terminal/output.h"
#include "tools/terminal/signals.h"

namespace sluice {

namespace {

constexpr double drive_seconds = 0.4;
constexpr int32_t prompt_sizes[] = {512, 4096, 8192};

// The backends at hand, and the memory that is planned with.
struct Device {
    std::unique_ptr<Backend> cpu, gpu;  // gpu: null if none, or only assumed
    DeviceMemory memory;
};

// Plans for a GPU of the size given by --vram that this machine does not have.
void assume_gpu(const Options& options, PlanReport& report, Device& device, std::string why) {
    const uint64_t vram = options.engine.vram;
    report.device = cat("an assumed GPU of ", size_text(vram));
    report.notes.push_back(std::move(why));
    device.memory = {.host = false, .limit = vram, .scratch = [](const Shapes& most) {
                         return cuda_scratch_bytes(most).value_or(0);
                     }};
    if (!cuda_scratch_bytes({})) {
        report.notes.push_back(
            "this build has no CUDA: scratch memory of the GPU kernels is not counted");
    }
}

Result<void> find_device(const Options& options, PlanReport& report, Device& device) {
    const EngineOptions& o = options.engine;
    const auto index = cuda_index(o.device);
    if (!index) return tl::unexpected(index.error());
    auto cpu = make_cpu_backend({.isa = o.isa, .threads = o.threads});
    if (!cpu) return tl::unexpected(cpu.error());
    device.cpu = std::move(*cpu);
    report.device = device.cpu->name();
    device.memory = device_memory(*device.cpu);
    if (o.device == "cpu") return refuse_gpu_options(o);
    auto gpus = cuda_devices();
    if (!gpus) return within("--device auto (--device cpu plans without a GPU)", gpus.error());
    if (gpus->empty() && o.vram != 0) {
        assume_gpu(options, report, device, "no GPU on this machine: its rates are assumed");
        return {};
    }
    if (gpus->empty() && o.device == "auto") return refuse_gpu_options(o);
    auto gpu = make_cuda_backend({.device = *index, .vram_budget = o.vram});
    if (!gpu && gpu.error().code == Code::no_memory && o.vram != 0) {
        assume_gpu(options, report, device,
                   cat("the GPU's rates are assumed: ", gpu.error().message));
        return {};
    }
    if (!gpu) return tl::unexpected(gpu.error());
    device.gpu = std::move(*gpu);
    report.device = device.gpu->name();
    device.memory = device_memory(*device.gpu);
    return {};
}

Result<void> measure_drive(const Options& options, uint64_t room, PlanReport& report) {
    DriveRates& drive = report.rates.drive;
    if (options.drive_rate > 0) {
        const auto rate = static_cast<double>(options.drive_rate);
        drive = {rate, rate, Origin::given};
        return {};
    }
    drive = assumed_drive();
    if (!report.model->files) {
        const auto& paces = options.engine.paces;
        if (paces.empty()) return {};
        const double rate = paced_bytes_s(paces, static_cast<uint32_t>(paces.size()));
        drive = {rate, rate, Origin::paced};
        return {};
    }
    auto reads = measure_engine_reads(options.engine, room, drive_seconds);
    if (!reads) return tl::unexpected(reads.error());
    drive = {reads->layer_bytes_s, reads->stream_bytes_s,
             options.engine.paces.empty() ? Origin::measured : Origin::paced};
    return {};
}

Result<void> measure_gpu(const Options& options, const ModelConfig& config, uint64_t room,
                         Device& device, MachineRates& rates) {
    rates.link = assumed_link();
    rates.gpu = assumed_gpu();
    if (device.gpu) {
        auto link = measure_link(*device.gpu, room);
        if (!link) return tl::unexpected(link.error());
        auto kernels = measure_kernels(*device.gpu, config, room);
        if (!kernels) return tl::unexpected(kernels.error());
        rates.link = *link;
        rates.gpu = *kernels;
    }
    if (const uint64_t given = options.engine.link_rate; given > 0) {
        rates.link = {static_cast<double>(given), Origin::given};
    }
    return {};
}

Result<void> measure(const Options& options, PlanReport& report, Device& device) {
    const ModelConfig& config = report.model->config();
    // Measured one after another, so that each may use as much memory as the run itself.
    const uint64_t room = std::min(report.plan.settings.ram, default_ram_budget());
    if (room < measuring_room) {
        report.notes.push_back(cat("memory and kernels were measured in only ", size_text(room),
                                   " of RAM, where CPU caches may make them look faster"));
    }
    if (auto r = measure_drive(options, room, report); !r) return r;
    const int threads = options.engine.threads > 0 ? options.engine.threads : usable_cpus();
    auto copy = measure_copy(threads, room);
    if (!copy) return tl::unexpected(copy.error());
    report.rates.copy_bytes_s = *copy;
    auto cpu = measure_kernels(*device.cpu, config, room);
    if (!cpu) return tl::unexpected(cpu.error());
    report.rates.cpu = *cpu;
    if (device.memory.host) return {};
    device.cpu.reset();  // frees the memory that it was measured in
    return measure_gpu(options, config, room, device, report.rates);
}

void forecast(PlanReport& report) {
    const PlanModel& model = *report.model;
    for (Warmth warmth : {Warmth::cold, Warmth::even, Warmth::skewed}) {
        report.decode.push_back(forecast_decode(model, report.plan, report.rates, warmth));
    }
    for (int32_t tokens : prompt_sizes) {
        if (tokens > report.plan.settings.context) continue;
        for (Warmth warmth : {Warmth::cold, Warmth::even}) {
            report.prompts.push_back(
                forecast_prompt(model, report.plan, report.rates, warmth, tokens));
        }
    }
}

}  // namespace

Result<PlanReport> make_plan(const Options& options, PlanParts parts) {
    PlanReport report;
    auto model = model_to_plan(options.engine, options.shape);
    if (!model) return tl::unexpected(model.error());
    report.model = std::move(*model);
    Device device;
    if (auto r = find_device(options, report, device); !r) return tl::unexpected(r.error());
    PlanModel& m = *report.model;
    auto plan = plan_memory({.config = m.config(),
                             .options = options.engine,
                             .specs = m.specs,
                             .tables = m.tables,
                             .slot_bytes = m.slot_bytes,
                             .device_slot_bytes = m.device_slot_bytes,
                             .device = device.memory});
    if (!plan) return tl::unexpected(plan.error());
    report.plan = std::move(*plan);
    report.notes.insert(report.notes.end(), m.notes.begin(), m.notes.end());
    report.notes.insert(report.notes.end(), report.plan.notes.begin(), report.plan.notes.end());
    if (!report.plan.warning.empty()) report.notes.push_back(report.plan.warning);
    if (auto now = check_ram(report.plan.settings.ram, available_ram()); !now) {
        report.notes.push_back(cat("a run would be refused now: ", now.error().message));
    }
    if (parts == PlanParts::placement) return report;
    if (auto r = measure(options, report, device); !r) return tl::unexpected(r.error());
    forecast(report);
    return report;
}

int run_plan(const Options& options) {
    install_signals(SecondPress::leaves);
    auto report = make_plan(options);
    if (!report) return report_error(report.error());
    Output output(1);
    auto done = output.write(options.json ? plan_json(*report) : plan_text(*report));
    if (!done) return report_error(done.error());
    return output.reader_gone() ? exit_reader_gone : exit_ok;
}

}  // namespace sluice
