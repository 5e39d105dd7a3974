#include "tools/options/option_rules.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "io/text.h"

namespace sluice {

namespace {

tl::unexpected<Error> refuse(std::string why) {
    return fail(Code::usage, std::move(why));
}

// The value that was typed for an option; null: none.
const std::string* typed(const TypedFlags& flags, std::string_view long_name) {
    const auto found = flags.find(find_option(long_name));
    return found == flags.end() ? nullptr : &found->second.values.back();
}

bool typed_as(const TypedFlags& flags, std::string_view long_name, std::string_view value) {
    const std::string* found = typed(flags, long_name);
    return found && *found == value;
}

bool typed_off(const TypedFlags& flags, std::string_view long_name) {
    return typed_as(flags, long_name, "off") || typed_as(flags, long_name, "0");
}

// With --verify the traces say what is asked. A flag would have no effect; a value that lasts waits
// in its variable or file for the next answer.
Result<void> check_comparing(const TypedFlags& flags) {
    if (!typed(flags, "verify")) return {};
    for (const auto& [spec, setting] : flags) {
        if (spec->commands & comparing) continue;
        std::string names;
        for (const std::string& flag : spec->flags()) names += (names.empty() ? "" : "/") + flag;
        return refuse(cat("--verify: ", names, " cannot be combined with it; ",
                          std::string_view(spec->group) == "Output"
                              ? "its report is one line per trace"
                              : "the trace fixes the prompt and the settings"));
    }
    return {};
}

Result<void> check_repeats(const TypedFlags& flags) {
    for (const auto& [spec, setting] : flags) {
        const bool single = spec->is(once) && !spec->is(several) && !spec->is_switch();
        if (!single || setting.values.size() < 2) continue;
        return refuse(
            cat(spec->flags().front(), ": given ", setting.values.size(), " times; give it once"));
    }
    return {};
}

// Two outputs in one file would leave one of them.
Result<void> check_outputs(const Options& o) {
    const std::pair<const char*, std::string> outputs[] = {
        {"--profile", o.profile_file},
        {"--record-routes", o.engine.record_routes},
        {"-o", o.output},
        {"--session", o.session_file},
        {"--hashes", o.hashes}};
    const auto place = [](const std::string& path) {
        std::error_code error;
        const auto whole =
            std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
        return error ? std::filesystem::path(path) : whole;
    };
    for (const auto& one : outputs) {
        for (const auto& other : outputs) {
            if (&one >= &other || one.second.empty() || other.second.empty()) continue;
            if (place(one.second) != place(other.second)) continue;
            return refuse(cat(one.first, " and ", other.first, ": both name ",
                              printable(one.second), "; give each a file of its own"));
        }
    }
    return {};
}

// How an answer is asked for.
Result<void> check_answer(const Options& o) {
    if (!o.system_prompt.empty() && !o.system_prompt_file.empty())
        return refuse("--system-prompt and --system-prompt-file: give only one of them");
    if (o.reasoning == Reasoning::off && o.effort)
        return refuse("--reasoning off: --reasoning-effort has no effect");
    const bool answers =
        o.command == Command::answer || o.command == Command::serve || o.command == Command::record;
    if (answers && o.engine.context > 0 && o.predict >= o.engine.context) {
        return refuse(cat("-n ", o.predict, ": leaves no room for a prompt in the context of ",
                          o.engine.context, " tokens (-c); raise -c or lower -n"));
    }
    return {};
}

// A server answers: nothing is loaded here, unless there is a model and another one will do.
Result<void> check_attach(const Options& o) {
    const std::string& flag = o.attach.loading_flag;
    const bool may_load = !o.attach.typed && !o.engine.locations.empty();
    if (flag.empty() || may_load) return {};
    return refuse(cat(o.attach.source, ' ', printable(o.attach.url), ": ", flag,
                      " is about a model that is loaded here; leave it out, or give a MODEL",
                      o.attach.typed ? " instead of the server" : ""));
}

Result<void> check_model(const Options& o) {
    if (!o.attach.url.empty() && o.traces.empty()) return check_attach(o);
    if (!o.shape.empty() && !o.engine.locations.empty())
        return refuse("--shape replaces the model; give only one of them");
    if (!o.shape.empty() && !o.engine.mirrors.empty())
        return refuse("--shape has no files; --mirror cannot be combined with it");
    if (!o.engine.locations.empty() || !o.shape.empty()) return {};
    return refuse(o.traces.empty() ? "no model: sluice MODEL (see sluice --help)"
                                   : "no model: it goes before --verify, which takes every name "
                                     "that follows");
}

Result<void> check_messages(const Options& o) {
    if (o.messages_file.empty()) return {};
    if (o.prompt || !o.prompt_file.empty())
        return refuse("--messages contains the prompt; -p and -f cannot be combined with it");
    if (!o.session_file.empty())
        return refuse("--messages and --session both give the conversation; give only one");
    return {};
}

}  // namespace

bool overruled(const OptionSpec& spec, const TypedFlags& flags) {
    constexpr std::pair<const char*, const char*> rivals[] = {
        {"quiet", "stats"},
        {"quiet", "verbose"},
        {"no-calibrate", "tune"},
        {"system-prompt", "system-prompt-file"}};
    const auto is = [&](const char* name) { return spec.name() == name; };
    const auto on = [&](const char* name) {
        const std::string* value = typed(flags, name);
        return value && *value != "off" && *value != "false";
    };
    for (const auto& [one, other] : rivals) {
        if ((is(one) && on(other)) || (is(other) && on(one))) return true;
    }
    if (is("reasoning") && on("reasoning-effort")) return true;
    if (is("reasoning-effort") && typed_as(flags, "reasoning", "off")) return true;
    return spec.is(needs_gpu) && typed_as(flags, "device", "cpu");
}

std::string loading_flag(const TypedFlags& flags) {
    constexpr std::string_view others[] = {"ctx-size", "profile", "record-routes", "index-keys"};
    for (const auto& [spec, setting] : flags) {
        const std::string name = spec->name();
        const std::string_view group = spec->group;
        const bool loads = group == "Machine" || (group == "Model" && name != "model");
        if (loads || std::ranges::find(others, name) != std::end(others)) return "--" + name;
    }
    return {};
}

Result<void> check_flags(const TypedFlags& flags, Command command) {
    for (const auto& fits : {check_comparing(flags), check_repeats(flags)}) {
        if (!fits) return fits;
    }
    if (command == Command::simulate) return {};
    if (typed_as(flags, "predictor", "none") && typed(flags, "prefetch") &&
        !typed_off(flags, "prefetch")) {
        return refuse("--predictor none: predicts nothing for --prefetch to read");
    }
    const bool no_vram_cache = typed_off(flags, "vram-slots") || typed_as(flags, "device", "cpu");
    if (typed_off(flags, "cache-slots") && no_vram_cache && typed(flags, "cache-policy")) {
        return refuse("--cache-slots off: leaves no cache for --cache-policy");
    }
    if (typed_as(flags, "quiet", "true") && typed_as(flags, "stats", "true")) {
        return refuse("--quiet and --stats contradict each other; --json has the same numbers");
    }
    return {};
}

Result<void> check_options(const Options& o) {
    if (!o.hashes.empty() && !o.check) return refuse("--hashes needs --check");
    if (auto apart = check_outputs(o); !apart) return apart;
    if (o.command == Command::simulate || o.command == Command::selftest) return {};
    if (auto fits = check_model(o); !fits) return fits;
    if (o.drive_rate > 0 && !o.engine.paces.empty())
        return refuse("--drive and --io paced both set the speed of the drive; give only one");
    if (o.session_file == "-")
        return refuse("--session -: needs a file, to read the conversation and to add to it");
    if (o.prompt && !o.prompt_file.empty()) return refuse("-p and -f: give only one prompt");
    if (o.quiet && o.verbose) return refuse("--quiet and --verbose contradict each other");
    if (o.traces.empty()) {
        if (auto fits = check_answer(o); !fits) return fits;
    }
    if (auto fits = check_messages(o); !fits) return fits;
    if (o.command == Command::record && o.output.empty())
        return refuse("record: -o FILE is missing");
    return {};
}

}  // namespace sluice
