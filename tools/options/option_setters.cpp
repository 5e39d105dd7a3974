#include "tools/options/option_setters.h"

#include <array>
#include <limits>

#include "cache/policy.h"
#include "cache/predictor.h"
#include "engine/text/stop_matcher.h"
#include "io/ring/ring_paced.h"
#include "io/ring/share_reads.h"
#include "io/text.h"
#include "tools/options/user_text.h"

namespace sluice::option {

namespace {

constexpr int64_t int32_max = std::numeric_limits<int32_t>::max();
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T, class Member>
Outcome store_integer(Options& options, const Setting& setting, Member store, int64_t low,
                      int64_t high) {
    auto value = parse_integer(setting.source, text_of(setting), low, high);
    if (!value) return tl::unexpected(value.error());
    store(options) = static_cast<T>(*value);
    return {};
}

template <auto member>
Outcome store_real(Options& options, const Setting& setting, const RealRange& range) {
    auto value = parse_real(setting.source, text_of(setting), range);
    if (!value) return tl::unexpected(value.error());
    options.*member = *value;
    return {};
}

// One of a few words.
template <class T>
Result<T> choose(const Setting& setting,
                 std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::string names;
    for (const auto& [name, value] : choices) {
        if (text_of(setting) == name) return value;
        names += names.empty() ? "" : ", ";
        names += name;
    }
    return fail(Code::usage,
                cat(setting.source, ": \"", printable(text_of(setting)), "\" is none of ", names));
}

template <class T, class Target>
Outcome store_choice(Target& target, const Setting& setting,
                     std::initializer_list<std::pair<std::string_view, T>> choices) {
    auto value = choose<T>(setting, choices);
    if (!value) return tl::unexpected(value.error());
    target = *value;
    return {};
}

// "off" or a number.
Result<uint32_t> parse_count(const Setting& setting, std::string_view text) {
    if (text == "off") return 0u;
    auto value = parse_integer(setting.source, text, 0, int32_max);
    if (!value) return fail(Code::usage, value.error().message + ", nor off");
    return static_cast<uint32_t>(*value);
}

Result<std::vector<std::string>> split_names(const Setting& setting,
                                             const std::vector<std::string>& known) {
    std::vector<std::string> out;
    std::string all;
    for (const auto& name : known) all += (all.empty() ? "" : ", ") + name;
    std::string_view rest = text_of(setting);
    while (true) {
        size_t comma = rest.find(',');
        std::string name(rest.substr(0, comma));
        bool found = false;
        for (const auto& other : known) found = found || other == name;
        if (!found) {
            return fail(Code::usage,
                        cat(setting.source, ": \"", printable(name), "\" is none of ", all));
        }
        out.push_back(name);
        if (comma == std::string_view::npos) return out;
        rest.remove_prefix(comma + 1);
    }
}

}  // namespace

Outcome set_drive_rate(Options& options, const Setting& setting) {
    auto rate = parse_drive_rate(text_of(setting));
    if (!rate) return within(setting.source, rate.error());
    options.drive_rate = *rate;
    return {};
}

Outcome set_model(Options& options, const Setting& setting) {
    for (const auto& location : setting.values) {
        if (location.empty()) return fail(Code::usage, setting.source + ": an empty model name");
        options.engine.locations.push_back(location);
    }
    return {};
}

Outcome set_mirror(Options& options, const Setting& setting) {
    for (const auto& folder : setting.values) {
        if (folder.empty()) return fail(Code::usage, setting.source + ": an empty folder name");
        options.engine.mirrors.push_back(folder);
    }
    if (options.engine.mirrors.size() >= copies_max) {
        return fail(Code::usage, cat(setting.source, ": at most ", copies_max - 1, " mirrors"));
    }
    return {};
}

Outcome set_revision(Options& options, const Setting& setting) {
    options.engine.revision = text_of(setting);
    return {};
}

Outcome accept(Options&, const Setting&) {
    return {};  // nothing is ever downloaded
}

Outcome set_predict(Options& options, const Setting& setting) {
    auto value = parse_integer(setting.source, text_of(setting), -1, int32_max);
    if (!value) return tl::unexpected(value.error());
    if (*value == 0) {
        return fail(Code::usage, cat(setting.source, ": 0 tokens is no answer; 1 to ", int32_max,
                                     ", or -1 for no limit"));
    }
    options.predict = *value;
    return {};
}

Outcome set_context(Options& o, const Setting& s) {
    return store_integer<int32_t>(
        o, s, [](Options& x) -> int32_t& { return x.engine.context; }, 1, int32_max);
}

Outcome set_chunk(Options& o, const Setting& s) {
    return store_integer<int32_t>(
        o, s, [](Options& x) -> int32_t& { return x.engine.chunk; }, 1, 1 << 20);
}

Outcome set_threads(Options& o, const Setting& s) {
    return store_integer<int>(
        o, s, [](Options& x) -> int& { return x.engine.threads; }, 1, 1024);
}

Outcome set_depth(Options& o, const Setting& s) {
    return store_integer<uint32_t>(
        o, s, [](Options& x) -> uint32_t& { return x.engine.ring_depth; }, 1, 4096);
}

Outcome set_parts(Options& o, const Setting& s) {
    return store_integer<uint32_t>(
        o, s,
        [](Options& x) -> uint32_t& {
            x.engine.tuning_given = true;
            return x.engine.tuning.parts;
        },
        1, 64);
}

Outcome set_in_flight(Options& o, const Setting& s) {
    return store_integer<uint32_t>(
        o, s,
        [](Options& x) -> uint32_t& {
            x.engine.tuning_given = true;
            return x.engine.tuning.in_flight_max;
        },
        1, 64);
}

Outcome set_temperature(Options& o, const Setting& s) {
    return store_real<&Options::temperature>(o, s, {0, infinity, false, true});
}
Outcome set_top_p(Options& o, const Setting& s) {
    return store_real<&Options::top_p>(o, s, {0, 1, true, false});
}
Outcome set_min_p(Options& o, const Setting& s) {
    return store_real<&Options::min_p>(o, s, {0, 1, false, true});
}
Outcome set_penalty(Options& o, const Setting& s) {
    return store_real<&Options::repeat_penalty>(o, s, {0, infinity, true, true});
}

Outcome set_top_k(Options& o, const Setting& s) {
    auto value = parse_integer(s.source, text_of(s), 0, int32_max);
    if (!value) return tl::unexpected(value.error());
    o.top_k = static_cast<int32_t>(*value);
    return {};
}

Outcome set_seed(Options& o, const Setting& s) {
    auto value = parse_integer(s.source, text_of(s), -1, std::numeric_limits<int64_t>::max());
    if (!value) return tl::unexpected(value.error());
    o.seed.reset();
    if (*value >= 0) o.seed = static_cast<uint64_t>(*value);
    return {};
}

Outcome set_stop(Options& o, const Setting& s) {
    for (const std::string& value : s.values) {
        if (auto text = check_utf8(s.source, value); !text) return text;
    }
    auto matcher = StopMatcher::create(s.values);
    if (!matcher) return tl::unexpected(matcher.error());
    o.stop = s.values;
    return {};
}

Outcome set_reasoning(Options& o, const Setting& s) {
    return store_choice<Reasoning>(
        o.reasoning, s,
        {{"on", Reasoning::on}, {"off", Reasoning::off}, {"auto", Reasoning::automatic}});
}

Outcome set_effort(Options& o, const Setting& s) {
    std::initializer_list<std::pair<std::string_view, int>> names = {
        {"low", 50}, {"high", 75}, {"max", 100}};
    for (const auto& [name, value] : names) {
        if (text_of(s) == name) {
            o.effort = value;
            return {};
        }
    }
    auto value = parse_integer(s.source, text_of(s), 1, 100);
    if (!value) return fail(Code::usage, value.error().message + ", nor low, high or max");
    o.effort = static_cast<int>(*value);
    return {};
}

Outcome set_loop_guard(Options& o, const Setting& s) {
    auto value = parse_integer(s.source, text_of(s), 0, 65536);
    if (!value) return tl::unexpected(value.error());
    if (*value > 0 && *value < 16) {
        return fail(Code::usage, s.source + ": 0 (off) or 16 to 65536 tokens");
    }
    o.loop_guard = static_cast<int32_t>(*value);
    return {};
}

Outcome set_device(Options& o, const Setting& s) {
    const std::string& name = text_of(s);
    bool numbered = name.rfind("cuda:", 0) == 0 &&
                    parse_integer(s.source, std::string_view(name).substr(5), 0, 255).has_value();
    if (name != "auto" && name != "cpu" && name != "cuda" && !numbered) {
        return fail(Code::usage, cat(s.source, ": \"", printable(name),
                                     "\" is none of auto, cpu, cuda, cuda:N (see --list-devices)"));
    }
    o.engine.device = name;
    return {};
}

Outcome set_isa(Options& o, const Setting& s) {
    return store_choice<CpuIsa>(o.engine.isa, s,
                                {{"auto", CpuIsa::automatic},
                                 {"scalar", CpuIsa::scalar},
                                 {"avx2", CpuIsa::avx2},
                                 {"avx512", CpuIsa::avx512},
                                 {"amx", CpuIsa::amx}});
}

Outcome set_io(Options& o, const Setting& s) {
    constexpr std::string_view paced = "paced:";
    o.engine.paces.clear();
    if (text_of(s).starts_with(paced)) {
        auto paces = parse_paces(std::string_view(text_of(s)).substr(paced.size()));
        if (!paces) return within(s.source, paces.error());
        o.engine.io = IoEngine::paced;
        o.engine.paces = std::move(*paces);
        return {};
    }
    if (text_of(s) == "paced") {
        return fail(Code::usage, s.source + ": paced needs a rate, like paced:8.8GB,80us");
    }
    auto stored = store_choice<IoEngine>(o.engine.io, s,
                                         {{"auto", IoEngine::automatic},
                                          {"uring", IoEngine::uring},
                                          {"threads", IoEngine::threads}});
    if (!stored) stored.error().message += ", paced:RATE";
    return stored;
}

Outcome set_ram(Options& o, const Setting& s) {
    auto bytes = parse_size(text_of(s));
    if (!bytes) return within(s.source, bytes.error());
    if (*bytes == 0) return fail(Code::usage, s.source + ": 0 bytes hold no model");
    o.engine.ram = *bytes;
    return {};
}

Outcome set_vram(Options& o, const Setting& s) {
    auto bytes = parse_size(text_of(s));
    if (!bytes) return within(s.source, bytes.error());
    if (*bytes == 0) return fail(Code::usage, s.source + ": 0 bytes hold no model");
    o.engine.vram = *bytes;
    return {};
}

Outcome set_vram_slots(Options& o, const Setting& s) {
    auto count = parse_count(s, text_of(s));
    if (!count) return tl::unexpected(count.error());
    o.engine.vram_slots = *count;
    return {};
}

Outcome set_launches(Options& o, const Setting& s) {
    using Ways = std::array<std::optional<bool>, 2>;  // graphs, overlap
    Ways ways;
    auto stored = store_choice<Ways>(ways, s,
                                     {{"auto", {}},
                                      {"plain", {false, false}},
                                      {"overlap", {false, true}},
                                      {"graphs", {true, false}},
                                      {"both", {true, true}}});
    if (!stored) return stored;
    o.engine.graphs = ways[0];
    o.engine.kernels_overlap = ways[1];
    return {};
}

Outcome set_cpu_experts(Options& o, const Setting& s) {
    std::string_view text = text_of(s);
    o.engine.cpu_experts.reset();
    if (text == "auto") return {};
    if (text == "off") {
        o.engine.cpu_experts = 0;
        return {};
    }
    if (text.ends_with('%')) text.remove_suffix(1);
    auto value = parse_integer(s.source, text, 0, 100);
    if (!value) return fail(Code::usage, value.error().message + ", nor auto or off");
    o.engine.cpu_experts = static_cast<uint32_t>(*value);
    return {};
}

Outcome set_link(Options& o, const Setting& s) {
    constexpr std::string_view paced = "paced:";
    o.engine.link_rate = 0;
    if (text_of(s) == "auto") return {};
    if (!text_of(s).starts_with(paced)) {
        return fail(Code::usage, cat(s.source, ": \"", printable(text_of(s)),
                                     "\" is neither auto nor paced:RATE, like paced:14GB"));
    }
    auto rate = parse_size(std::string_view(text_of(s)).substr(paced.size()));
    if (!rate) return within(s.source, rate.error());
    if (*rate < 1'000'000) {
        return fail(Code::usage, s.source + ": a link brings at least 1MB a second");
    }
    o.engine.link_rate = *rate;
    return {};
}

Outcome set_skip_selftest(Options& o, const Setting& s) {
    auto on = parse_switch(s.source, text_of(s));
    if (!on) return tl::unexpected(on.error());
    o.engine.skip_selftest = *on;
    return {};
}

Outcome set_tune(Options& o, const Setting& s) {
    auto on = parse_switch(s.source, text_of(s));
    if (!on) return tl::unexpected(on.error());
    if (*on) o.engine.calibrate = Calibrate::thorough;
    return {};
}

// After set_tune, as in the table.
Outcome set_no_calibrate(Options& o, const Setting& s) {
    auto on = parse_switch(s.source, text_of(s));
    if (!on) return tl::unexpected(on.error());
    if (*on && o.engine.calibrate == Calibrate::thorough) {
        return fail(Code::usage, s.source + " and --tune contradict each other");
    }
    if (*on) o.engine.calibrate = Calibrate::off;
    return {};
}

Outcome set_slots(Options& o, const Setting& s) {
    if (o.command != Command::simulate) {
        auto count = parse_count(s, text_of(s));
        if (!count) return tl::unexpected(count.error());
        o.engine.cache_slots = *count;
        return {};
    }
    std::string_view rest = text_of(s);
    o.slot_counts.clear();
    while (true) {
        size_t comma = rest.find(',');
        auto count = parse_count(s, rest.substr(0, comma));
        if (!count) return tl::unexpected(count.error());
        o.slot_counts.push_back(*count);
        if (comma == std::string_view::npos) return {};
        rest.remove_prefix(comma + 1);
    }
}

Outcome set_policy(Options& o, const Setting& s) {
    auto known = policy_names();
    if (o.command == Command::simulate) known.push_back("belady");
    auto names = split_names(s, known);
    if (!names) return tl::unexpected(names.error());
    if (o.command == Command::simulate) {
        o.policies = *names;
        return {};
    }
    if (names->size() != 1) return fail(Code::usage, s.source + ": one policy");
    o.engine.cache_policy = names->front();
    return {};
}

Outcome set_predictor(Options& o, const Setting& s) {
    auto names = split_names(s, predictor_names());
    if (!names) return tl::unexpected(names.error());
    if (o.command == Command::simulate) {
        o.predictors = *names;
        return {};
    }
    if (names->size() != 1) return fail(Code::usage, s.source + ": one predictor");
    o.engine.predictor = names->front();
    return {};
}

Outcome set_prefetch(Options& o, const Setting& s) {
    o.engine.prefetch = 0;
    if (text_of(s) == "off") return {};
    auto count = parse_integer(s.source, text_of(s), 0, 64);
    if (!count) return fail(Code::usage, count.error().message + " guesses a layer, nor off");
    o.engine.prefetch = static_cast<uint32_t>(*count);
    return {};
}

Outcome set_index_keys(Options& o, const Setting& s) {
    return store_choice<IndexKeys>(o.engine.index_keys, s,
                                   {{"own", IndexKeys::own}, {"reference", IndexKeys::reference}});
}

Outcome set_record_routes(Options& o, const Setting& s) {
    if (text_of(s).empty()) return fail(Code::usage, s.source + ": an empty file name");
    o.engine.record_routes = text_of(s);
    return {};
}

Outcome set_color(Options& o, const Setting& s) {
    return store_choice<ColorChoice>(o.color, s,
                                     {{"auto", ColorChoice::automatic},
                                      {"on", ColorChoice::on},
                                      {"always", ColorChoice::on},
                                      {"off", ColorChoice::off},
                                      {"never", ColorChoice::off}});
}

Outcome set_log_level(Options& o, const Setting& s) {
    return store_choice<log::Level>(o.log_level, s,
                                    {{"off", log::Level::off},
                                     {"error", log::Level::error},
                                     {"warn", log::Level::warn},
                                     {"info", log::Level::info},
                                     {"debug", log::Level::debug},
                                     {"trace", log::Level::trace}});
}

Outcome set_only(Options& o, const Setting& s) {
    auto names =
        split_names(s, {"decode", "prefill", "gemv", "drive", "split", "prompts", "ladder"});
    if (!names) return tl::unexpected(names.error());
    o.only = *names;
    return {};
}

}  // namespace sluice::option
