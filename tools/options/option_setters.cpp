#include "tools/options/option_setters.h"

#include <algorithm>
#include <cctype>

#include "cache/policy.h"
#include "cache/predictor.h"
#include "engine/text/stop_matcher.h"
#include "io/ring/ring_paced.h"
#include "io/ring/share_reads.h"

namespace sluice::option {

namespace {

constexpr uint64_t link_rate_min = 1'000'000;  // bytes a second
constexpr std::string_view paced = "paced:";

constexpr Word<uint32_t> none[] = {{"off", 0}};
constexpr Word<IoEngine> io_engines[] = {
    {"auto", IoEngine::automatic}, {"uring", IoEngine::uring}, {"threads", IoEngine::threads}};

std::vector<std::string> at_commas(std::string_view text) {
    std::vector<std::string> out;
    while (true) {
        const size_t comma = text.find(',');
        out.emplace_back(text.substr(0, comma));
        if (comma == text.npos) return out;
        text.remove_prefix(comma + 1);
    }
}

// Names joined by commas, each one of `known`.
Result<std::vector<std::string>> list_of(const Setting& setting,
                                         const std::vector<std::string>& known) {
    auto out = at_commas(text_of(setting));
    for (const std::string& name : out) {
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        return tl::unexpected(refuse_value({setting.source, {name}}, listed(known)).error());
    }
    return out;
}

// What simulate compares is a list; a run has one of them.
Outcome one_or_list(Options& options, const Setting& setting, std::vector<std::string> known,
                    std::string EngineOptions::*one, std::vector<std::string> Options::*list) {
    auto found = list_of(setting, known);
    if (!found) return tl::unexpected(found.error());
    if (options.command == Command::simulate) {
        options.*list = std::move(*found);
        return {};
    }
    if (found->size() != 1) return refuse(setting, "takes only one name");
    options.engine.*one = found->front();
    return {};
}

}  // namespace

std::string listed(const std::vector<std::string>& words) {
    std::string out;
    for (size_t i = 0; i < words.size(); ++i) {
        const char* between = i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
        out += cat(between, words[i]);
    }
    return out;
}

Outcome mirrors(Options& options, const Setting& setting) {
    if (setting.values.size() >= copies_max) {
        return refuse(setting, cat("at most ", copies_max - 1, " mirrors are allowed"));
    }
    return names<&EngineOptions::mirrors>(options, setting);
}

Outcome predict(Options& options, const Setting& setting) {
    if (text_of(setting) == "0") {
        return refuse(setting, cat("must be 1 to ", int32_max, ", or -1 for no limit"));
    }
    return integer<&Options::predict, -1, int32_max>(options, setting);
}

Outcome seed(Options& options, const Setting& setting) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    auto value = parse_integer(setting.source, text_of(setting), -1, most);
    if (!value) return tl::unexpected(value.error());
    options.seed.reset();
    if (*value >= 0) options.seed = static_cast<uint64_t>(*value);
    return {};
}

// DIR, DIR:SIZE, on or off. A folder may have a colon in its name: a size has a unit, and what only
// begins as one is refused.
Outcome prompt_cache(Options& options, const Setting& setting) {
    std::string_view folder = text_of(setting);
    if (folder == "on" || folder == "off") {
        options.prompt_cache = folder == "on";
        options.prompt_cache_folder.clear();
        return {};
    }
    if (folder.empty()) return refuse(setting, "the name is empty");
    const size_t colon = folder.rfind(':');
    if (colon != std::string_view::npos && colon > 0) {
        const std::string_view end = folder.substr(colon + 1);
        const bool unit = !end.empty() && std::isalpha(static_cast<unsigned char>(end.back()));
        const auto bytes = parse_size(end);
        if (unit && bytes) {
            if (*bytes == 0) return refuse(setting, "must be more than 0 bytes");
            options.prompt_cache_bytes = *bytes;
            folder = folder.substr(0, colon);
        } else if (!end.empty() && std::isdigit(static_cast<unsigned char>(end.front())) &&
                   end.find('/') == end.npos) {
            return refuse(setting, cat('"', printable(end), "\" is no size such as 4GiB; a folder ",
                                       "of that name ends with /"));
        }
    }
    options.prompt_cache = true;
    options.prompt_cache_folder = home_expanded(std::string(folder));
    return {};
}

Outcome stop(Options& options, const Setting& setting) {
    if (setting.values.empty()) return options.stop.clear(), Outcome();
    for (const std::string& value : setting.values) {
        if (auto valid = check_utf8(setting.source, value); !valid) return valid;
    }
    auto matcher = StopMatcher::create(setting.values);
    if (!matcher) return tl::unexpected(matcher.error());
    options.stop = setting.values;
    return {};
}

Outcome loop_guard(Options& options, const Setting& setting) {
    int32_t& guard = options.loop_guard;
    const int32_t before = guard;
    auto done = integer<&Options::loop_guard, 0, 65536>(options, setting);
    if (!done || guard == 0 || guard >= 16) return done;
    guard = before;
    return refuse(setting, "must be 0 (off) or 16 to 65536");
}

Outcome device(Options& options, const Setting& setting) {
    constexpr std::string_view numbered = "cuda:";
    const std::string& name = text_of(setting);
    const bool number =
        name.starts_with(numbered) &&
        parse_integer("", std::string_view(name).substr(numbered.size()), 0, 255).has_value();
    if (name != "auto" && name != "cpu" && name != "cuda" && !number) {
        return refuse_value(setting, "auto, cpu, cuda or cuda:N (see sluice --list-devices)");
    }
    options.engine.device = name;
    return {};
}

Outcome io_engine(Options& options, const Setting& setting) {
    options.engine.paces.clear();
    if (text_of(setting).starts_with(paced)) {
        auto paces = parse_paces(std::string_view(text_of(setting)).substr(paced.size()));
        if (!paces) return within(setting.source, paces.error());
        options.engine.io = IoEngine::paced;
        options.engine.paces = std::move(*paces);
        return {};
    }
    if (text_of(setting) == "paced") {
        return refuse(setting, "paced needs a rate, such as paced:8.8GB,80us");
    }
    if (!choice<&EngineOptions::io, io_engines>(options, setting)) {
        return refuse_value(setting, "auto, uring, threads or paced:RATE");
    }
    return {};
}

Outcome launches(Options& options, const Setting& setting) {
    struct Way {
        std::string_view text;
        std::optional<bool> graphs, overlap;
    };
    constexpr Way ways[] = {{"auto", {}, {}},
                            {"plain", false, false},
                            {"overlap", false, true},
                            {"graphs", true, false},
                            {"both", true, true}};
    for (const Way& way : ways) {
        if (text_of(setting) != way.text) continue;
        options.engine.graphs = way.graphs;
        options.engine.kernels_overlap = way.overlap;
        return {};
    }
    return refuse_value(setting, "auto, plain, overlap, graphs or both");
}

Outcome link_rate(Options& options, const Setting& setting) {
    options.engine.link_rate = 0;
    if (text_of(setting) == "auto") return {};
    if (!text_of(setting).starts_with(paced)) {
        return refuse_value(setting, "auto or paced:RATE, such as paced:14GB");
    }
    auto rate = parse_size(std::string_view(text_of(setting)).substr(paced.size()));
    if (!rate) return within(setting.source, rate.error());
    if (*rate < link_rate_min) return refuse(setting, "must be at least 1MB per second");
    options.engine.link_rate = *rate;
    return {};
}

Outcome drive_rate(Options& options, const Setting& setting) {
    auto rate = parse_drive_rate(text_of(setting));
    if (!rate) return within(setting.source, rate.error());
    options.drive_rate = *rate;
    return {};
}

Outcome tune(Options& options, const Setting& setting) {
    auto on = parse_switch(setting.source, text_of(setting));
    if (!on) return tl::unexpected(on.error());
    if (*on) options.engine.calibrate = Calibrate::thorough;
    return {};
}

// After tune(), as in the table.
Outcome no_calibrate(Options& options, const Setting& setting) {
    auto on = parse_switch(setting.source, text_of(setting));
    if (!on) return tl::unexpected(on.error());
    if (*on && options.engine.calibrate == Calibrate::thorough) {
        return fail(Code::usage, setting.source + " and --tune contradict each other");
    }
    if (*on) options.engine.calibrate = Calibrate::off;
    return {};
}

Outcome attach(Options& options, const Setting& setting) {
    const std::string& url = text_of(setting);
    if (url.empty()) return refuse(setting, "the address is empty");
    const bool typed = setting.source.starts_with("--");
    options.attach = {url == "off" ? "" : url, setting.source, typed, {}};
    return {};
}

Outcome cache_slots(Options& options, const Setting& setting) {
    constexpr auto set = integer_or<&EngineOptions::cache_slots, 0, int32_max, none>;
    if (options.command != Command::simulate) return set(options, setting);
    options.slot_counts.clear();
    for (const std::string& count : at_commas(text_of(setting))) {
        if (auto done = set(options, {setting.source, {count}}); !done) return done;
        options.slot_counts.push_back(*options.engine.cache_slots);
    }
    options.engine.cache_slots.reset();
    return {};
}

Outcome cache_policy(Options& options, const Setting& setting) {
    auto known = policy_names();
    if (options.command == Command::simulate) known.emplace_back("belady");
    return one_or_list(options, setting, std::move(known), &EngineOptions::cache_policy,
                       &Options::policies);
}

Outcome predictor(Options& options, const Setting& setting) {
    return one_or_list(options, setting, predictor_names(), &EngineOptions::predictor,
                       &Options::predictors);
}

Outcome header_max(Options& options, const Setting& setting) {
    constexpr uint64_t most = 64 << 10;
    if (auto done = size<&ServeOptions::header_max>(options, setting); !done) return done;
    if (options.serve.header_max > most) return refuse(setting, "must be at most 64KiB");
    return {};
}

Outcome bench_parts(Options& options, const Setting& setting) {
    auto parts =
        list_of(setting, {"decode", "prefill", "gemv", "drive", "split", "prompts", "ladder"});
    if (!parts) return tl::unexpected(parts.error());
    options.only = std::move(*parts);
    return {};
}

}  // namespace sluice::option
