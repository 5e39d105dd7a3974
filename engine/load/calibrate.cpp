#include "engine/load/calibrate.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/load/cache_file.h"
#include "engine/load/read_trial.h"
#include "io/clock.h"
#include "io/format.h"
#include "io/median.h"
#include "io/mount.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t model_least = 512u << 20;  // bytes of experts; below, speed hardly matters
constexpr double win = 1.03;
constexpr const char* kind = "reads";
constexpr uint32_t parts_tried[] = {1, 2, 4};
constexpr uint32_t in_flight_tried[] = {8, 4};  // or fewer, if the default is lower

std::string tuning_text(const ExpertTuning& tuning) {
    return cat(tuning.parts, tuning.parts == 1 ? " part, " : " parts, ", tuning.in_flight_max,
               tuning.in_flight_max == 1 ? " expert" : " experts", " in flight");
}

std::string rate_text(double bytes_s) {
    return formatted("{:.2f} GB/s", bytes_s / 1e9);
}

// The drives, how they are read and what is read: all that the result depends on.
std::string identity(const Checkpoint& checkpoint, const ExpertMap& map, const ReadRing& ring,
                     uint32_t burst) {
    std::set<std::string> drives;
    const auto add = [&](const File& file) {
        const uint64_t device = file.identity().device;
        drives.insert(cat("drive ", file.drive(), " ", major(device), ":", minor(device), " ",
                          mount_of(file.path()).type));
    };
    for (const File& shard : checkpoint.shards()) add(shard);
    for (const auto& copies : checkpoint.copies()) {
        for (const File& copy : copies) add(copy);
    }
    std::string out = cat("reads 1, ", ring.engine_name(), ", depth ", ring.depth(), ", ", burst,
                          " experts of ", map.expert_bytes({0, 0}));
    for (const std::string& drive : drives) out += cat(", ", drive);
    return printable(out);
}

uint64_t all_bytes(const ExpertMap& map) {
    return map.expert_bytes({0, 0}) * static_cast<uint64_t>(map.layers()) *
           static_cast<uint64_t>(map.experts());
}

// Takes `name` and the value behind it off the front of `text`.
template <class T>
bool take(std::string_view& text, std::string_view name, T& value) {
    if (!text.starts_with(name)) return false;
    text.remove_prefix(name.size());
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
    return true;
}

// No candidate needs more slots than the default, for which the memory was planned.
TrialPlan plan_of(const EngineOptions& options, uint32_t burst, const std::atomic<bool>* cancel) {
    TrialPlan plan;
    plan.burst = burst;
    plan.cancel = cancel;
    plan.candidates.push_back(options.tuning);
    const bool thorough = options.calibrate == Calibrate::thorough;
    for (const uint32_t parts : parts_tried) {
        for (const uint32_t in_flight : in_flight_tried) {
            ExpertTuning tuning = options.tuning;
            tuning.parts = parts;
            tuning.in_flight_max = std::min(in_flight, options.tuning.in_flight_max);
            const auto& known = plan.candidates;
            if (std::find(known.begin(), known.end(), tuning) == known.end()) {
                plan.candidates.push_back(tuning);
            }
        }
    }
    if (!thorough) return plan;
    plan.prompts = true;
    plan.rounds = 7;
    plan.seconds = 0.4;
    plan.limit_s = 120;
    return plan;
}

double seconds_of(const TrialPlan& plan) {
    const double each = plan.seconds * plan.rounds * (plan.prompts ? 2 : 1);
    return std::min(plan.limit_s, each * static_cast<double>(plan.candidates.size()));
}

}  // namespace

Result<TrialResult> try_tunings(const TrialPlan& plan, ExpertMap& map, ReadRing& ring,
                                std::span<std::byte> memory) {
    std::vector<std::vector<double>> rates(plan.candidates.size());
    const auto start = ring.now();
    bool late = false;
    for (int round = 0; round < plan.rounds && !late; ++round) {
        std::vector<double> these;
        for (const ExpertTuning& tuning : plan.candidates) {
            map.retune(tuning);
            ReadTrial trial(map, ring, memory, plan.cancel);
            auto rate = trial.measure(plan.burst, plan.seconds);
            if (rate && plan.prompts) {
                auto stream = trial.measure(0, plan.seconds);
                rate = stream ? 2 / (1 / *rate + 1 / *stream) : stream;
            }
            if (!rate) return tl::unexpected(rate.error());
            these.push_back(*rate);
            const double passed = to_seconds(ring.now() - start);
            late = passed + plan.seconds > plan.limit_s;
            if (late) break;
        }
        // On a slow drive there may be time only for the first round, or a part of it: then at
        // least the default's rate is known.
        if (late && these.size() < plan.candidates.size() && round > 0) break;
        for (size_t i = 0; i < these.size(); ++i) rates[i].push_back(these[i]);
    }
    TrialResult best{plan.candidates.front(), median(rates.front())};
    for (size_t i = 1; i < rates.size(); ++i) {
        bool wins = rates[i].size() == rates.front().size() && rates[i].size() >= 2;
        for (size_t round = 0; wins && round < rates[i].size(); ++round) {
            wins = rates[i][round] >= win * rates.front()[round];
        }
        if (wins && median(rates[i]) > best.bytes_s) {
            best = {plan.candidates[i], median(rates[i])};
        }
    }
    map.retune(best.tuning);
    return best;
}

std::string calibration_text(const Calibration& calibration) {
    return cat("parts ", calibration.tuning.parts, " in flight ", calibration.tuning.in_flight_max,
               " rate ", calibration.bytes_s);
}

std::optional<Calibration> parse_calibration(std::string_view text, ExpertTuning tuning) {
    Calibration out{tuning, 0, ""};
    const bool whole = take(text, "parts ", out.tuning.parts) &&
                       take(text, " in flight ", out.tuning.in_flight_max) &&
                       take(text, " rate ", out.bytes_s) && text.empty();
    const bool tried = out.tuning.parts >= 1 && out.tuning.parts <= std::ranges::max(parts_tried) &&
                       out.tuning.in_flight_max >= 1 &&
                       out.tuning.in_flight_max <= std::ranges::max(in_flight_tried);
    if (!whole || !tried || !std::isfinite(out.bytes_s) || out.bytes_s <= 0) return std::nullopt;
    return out;
}

Result<Calibration> calibrate(const Checkpoint& checkpoint, const EngineOptions& options,
                              bool direct, uint32_t burst, ExpertMap& map, ReadRing& ring,
                              std::span<std::byte> memory, const std::atomic<bool>* cancel) {
    Calibration out{options.tuning, 0, ""};
    const auto keep = [&](const std::string& why) {
        out.note = cat("reads     ", tuning_text(out.tuning), " (", why, ")");
        return out;
    };
    const bool thorough = options.calibrate == Calibrate::thorough;
    const bool cached = !direct && options.paces.empty();
    if (options.calibrate == Calibrate::off) return keep("not measured: --no-calibrate");
    if (thorough && options.tuning_given) {
        return fail(Code::usage,
                    "--tune measures what --expert-parts and --experts-in-flight set: "
                    "give one or the other");
    }
    if (thorough && cached) {
        return fail(Code::usage,
                    "--tune: the files are read through the page cache, whose speed "
                    "says nothing about the drive; omit --tune");
    }
    if (options.tuning_given) return keep("as given");
    if (!thorough && all_bytes(map) < model_least) return keep("not measured: the model is small");
    if (cached) return keep("not measured: reads go through the page cache");
    const std::string id = identity(checkpoint, map, ring, burst);
    const auto kept = thorough ? std::nullopt : recall(kind, id);
    if (const auto known = kept ? parse_calibration(*kept, options.tuning) : std::nullopt) {
        out = *known;
        out.tuning.in_flight_max = std::min(out.tuning.in_flight_max, options.tuning.in_flight_max);
        map.retune(out.tuning);
        return keep(cat("measured on this drive in an earlier run, ", rate_text(out.bytes_s)));
    }
    const TrialPlan plan = plan_of(options, burst, cancel);
    if (thorough && options.measuring) options.measuring(seconds_of(plan));
    auto best = try_tunings(plan, map, ring, memory);
    if (!best) return within("measuring the drive (--no-calibrate runs without it)", best.error());
    out.tuning = best->tuning;
    out.bytes_s = best->bytes_s;
    const bool stored = remember(kind, id, calibration_text(out));
    return keep(cat("measured ", thorough ? "by --tune" : "now", ", ", rate_text(out.bytes_s),
                    out.tuning == options.tuning ? ", the default" : ", faster than the default",
                    stored ? "" : cat("; the result ", not_remembered())));
}

}  // namespace sluice
