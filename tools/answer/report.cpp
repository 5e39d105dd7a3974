#include "tools/answer/report.h"

#include <algorithm>
#include <utility>

#include "io/counted.h"
#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

std::string percent(double part, double whole) {
    return whole > 0 ? formatted("{:.1f} %", 100 * part / whole) : std::string("none");
}

std::string percent(uint64_t part, uint64_t whole) {
    return percent(static_cast<double>(part), static_cast<double>(whole));
}

double ring_rate(const RunStats& stats) {
    return rate(static_cast<double>(stats.ring.bytes), stats.ring.busy_s);
}

uint64_t fed_tokens(const Answer& answer) {
    return answer.prompt_tokens - answer.cached_tokens;
}

std::string speed_text(double tokens_s) {
    return tokens_s < 10 ? formatted("{:.2f}", tokens_s) : formatted("{:.1f}", tokens_s);
}

std::string seconds_text(double seconds) {
    return seconds < 60 ? formatted("{:.1f} s", seconds) : formatted("{:.0f} s", seconds);
}

std::string source_text(const Answer& answer, const RunFacts& facts) {
    if (!facts.server.empty()) return "the server";
    return answer.cached_by == KeptBy::session ? "the session" : kept_by_name(answer.cached_by);
}

// "limit     drive 1.00, link 0.00, cpu 2.10, gpu 0.00 ms per token: 476.19 tok/s, 80.0 % reached"
std::string limit_line(const char* head, const Limit& limit) {
    std::string out = formatted(
        "{}drive {:.2f}, link {:.2f}, cpu {:.2f}, gpu {:.2f} ms per token: {:.2f} tok/s, {:.1f} % "
        "reached",
        head, 1e3 * limit.drive_s, 1e3 * limit.link_s, 1e3 * limit.cpu_s, 1e3 * limit.gpu_s,
        limit.tok_s, 100 * limit.share);
    if (limit.tok_s > 0) out += cat("; bottleneck: ", limit.binds);
    return out + "\n";
}

const char* state_name(DriveStats::State state) {  // as in JSON
    switch (state) {
        case DriveStats::State::in_use:
            return "in use";
        case DriveStats::State::slow:
            return "slow";
        case DriveStats::State::left_out:
            return "left out";
    }
    return "";
}

const char* state_text(DriveStats::State state) {
    return state == DriveStats::State::left_out ? "no longer used" : state_name(state);
}

double drive_rate(const DriveStats& drive) {
    return rate(static_cast<double>(drive.bytes), drive.busy_s);
}

uint64_t expert_bytes(const std::vector<DriveStats>& drives) {
    uint64_t all = 0;
    for (const DriveStats& drive : drives) all += drive.expert_bytes;
    return all;
}

std::string drive_lines(const std::vector<DriveStats>& drives) {
    const uint64_t all = expert_bytes(drives);
    std::string out;
    for (const DriveStats& drive : drives) {
        out += formatted("drive     {}: {}, {:.3f} GB/s while busy, {} of expert bytes; {}{}{}\n",
                         drive.folder, size_text(drive.bytes), drive_rate(drive) / 1e9,
                         percent(drive.expert_bytes, all), state_text(drive.state),
                         drive.cause.empty() ? "" : ": ", drive.cause);
    }
    return out;
}

void write_drives(JsonWriter& json, const std::vector<DriveStats>& drives) {
    const auto all = static_cast<double>(expert_bytes(drives));
    json.begin_array();
    for (const DriveStats& drive : drives) {
        json.begin_object()
            .member("folder", drive.folder)
            .member("reads", drive.reads)
            .member("bytes", drive.bytes)
            .member("busy_s", drive.busy_s)
            .member("gb_s", drive_rate(drive) / 1e9)
            .member("expert_bytes", drive.expert_bytes)
            .member("expert_share", rate(static_cast<double>(drive.expert_bytes), all))
            .member("state", state_name(drive.state));
        if (!drive.cause.empty()) json.member("cause", drive.cause);
        json.end_object();
    }
    json.end_array();
}

void write_io(JsonWriter& json, const RunStats& run, const RunFacts& facts) {
    json.begin_object()
        .member("engine", facts.io_name)
        .member("reads", run.ring.reads)
        .member("bytes", run.ring.bytes)
        .member("busy_s", run.ring.busy_s)
        .member("wait_s", run.ring.wait_s)
        .member("gb_s", ring_rate(run) / 1e9)
        .member("expert_bytes", run.expert_bytes)
        .member("row_bytes", run.row_bytes)
        .member("rows_asked", run.rows_asked)
        .member("row_hits", run.row_hits)
        .key("drives");
    write_drives(json, run.drives);
    json.end_object();
}

}  // namespace

double rate(double amount, double seconds) {
    return seconds > 0 ? amount / seconds : 0;
}

Limit limit_of(const RunStats& run, uint64_t tokens, double seconds) {
    Limit limit;
    if (tokens == 0 || seconds <= 0) return limit;
    const double count = static_cast<double>(tokens);
    const double drive = ring_rate(run);
    const double bytes = static_cast<double>(run.expert_bytes + run.row_bytes);
    limit.drive_s = drive > 0 ? bytes / drive / count : 0;
    limit.link_s = run.device.upload_s / count;
    limit.gpu_s = run.device.busy_s / count;
    limit.cpu_s = (run.device.launches > 0 ? run.host_s : run.compute_s) / count;
    double longest = 0;
    for (const auto& [name, term] : {std::pair("drive", limit.drive_s),
                                     {"link", limit.link_s},
                                     {"cpu", limit.cpu_s},
                                     {"gpu", limit.gpu_s}}) {
        if (term <= longest) continue;
        longest = term;
        limit.binds = name;
    }
    if (longest <= 0) return limit;
    limit.tok_s = 1 / longest;
    limit.share = count / seconds / limit.tok_s;
    return limit;
}

bool fills_context(const Answer& answer, const RunFacts& facts) {
    const auto used = answer.prompt_tokens + answer.completion_tokens;
    return answer.finish == Finish::length && facts.context > 0 &&
           used >= static_cast<uint64_t>(facts.context);
}

std::string cut_reasoning_text(const Answer& answer) {
    const bool no_answer = answer.text.empty() && answer.reasoning_tokens > 0;
    if (answer.finish != Finish::length) return "";
    if (!answer.unclosed && !answer.cut_reasoning && !no_answer) return "";
    return cat("cut off after ", counted(answer.completion_tokens, "token"), " of reasoning",
               answer.unclosed ? ", which is shown as the answer" : "", "; raise -n");
}

std::string context_advice(const RunFacts& facts) {
    return cat("start ", facts.server.empty() ? "" : "the server ", "with a larger -c");
}

std::string server_text(const RunFacts& facts) {
    return cat(facts.server, " (", printable(facts.model), ")");
}

std::string speed_line(const Answer& answer, const RunFacts& facts) {
    // A server counts them in the end of an answer, which did not come.
    if (answer.prompt_tokens == 0) return "its tokens were not counted";
    const double speed = rate(static_cast<double>(answer.decoded()), answer.decode_s);
    std::string line = counted(answer.completion_tokens, "token");
    if (speed > 0) line += formatted(" · {} tok/s", speed_text(speed));
    if (answer.prompt_s > 0) line += cat(" · first token ", seconds_text(answer.prompt_s));
    const uint64_t used = answer.prompt_tokens + answer.completion_tokens;
    line += cat(" · context ", used);
    if (facts.context > 0) line += cat("/", facts.context);
    return line;
}

std::string speed_details(const Answer& answer, const RunFacts& facts) {
    const RunStats& run = answer.decode;
    double speed = rate(static_cast<double>(answer.decoded()), answer.decode_s);
    Limit limit = limit_of(run, answer.decoded(), answer.decode_s);
    std::string line = counted(answer.completion_tokens, "token");
    if (speed > 0) line += formatted(", {:.2f} tok/s", speed);
    if (limit.tok_s > 0) {
        line += formatted(" ({:.0f} % of {:.2f}; bottleneck: {})", 100 * limit.share, limit.tok_s,
                          limit.binds);
    }
    const uint64_t fed = fed_tokens(answer);
    line += cat("; prompt ", counted(fed, "token"));
    if (answer.cached_tokens > 0) {
        line += cat(" (", answer.cached_tokens, " more from ", source_text(answer, facts), ")");
    }
    if (answer.prompt_s > 0 || facts.server.empty()) {
        line += formatted(", {:.1f} tok/s", rate(static_cast<double>(fed), answer.prompt_s));
    }
    if (!facts.server.empty()) return line;
    const CacheStats& cache = run.cache;
    if (cache.asked > 0) line += cat("; cache hits ", percent(cache.hits, cache.asked));
    line += cat("; read ", size_text(answer.prompt.ring.bytes + run.ring.bytes));
    if (cache.prefetch_started > 0) {
        line +=
            cat("; prefetch ", cache.prefetch_used, " used, ", cache.prefetch_wasted, " wasted");
    }
    if (!facts.pace.empty()) line += cat("; drive paced to ", facts.pace);
    return line;
}

double load_share(const LoadFacts& load) {
    return rate(rate(static_cast<double>(load.bytes), load.seconds), load.drive_bytes_s);
}

namespace {

std::string load_text(const LoadFacts& load) {
    const double speed = rate(static_cast<double>(load.bytes), load.seconds);
    std::string out = formatted("load      {} of dense weights in {:.3f} s, {:.3f} GB/s",
                                size_text(load.bytes), load.seconds, speed / 1e9);
    if (load.drive_bytes_s > 0) {
        out += formatted(", {:.1f} % of the drive's {:.3f}", 100 * load_share(load),
                         load.drive_bytes_s / 1e9);
    }
    return cat(out, "\n", load.reads.empty() ? "" : cat(load.reads, "\n"));
}

// What a server's answer says, too.
std::string answer_text(const Answer& answer, const RunFacts& facts) {
    const std::string kept = answer.cached_tokens == 0 ? std::string("all of them read")
                                                       : cat(answer.cached_tokens, " of them from ",
                                                             source_text(answer, facts));
    std::string out = formatted("prompt    {} tokens ({}), {:.3f} s\n", answer.prompt_tokens, kept,
                                answer.prompt_s);
    out += formatted("answer    {} tokens ({} reasoning), {:.3f} s, ended by {}\n",
                     answer.completion_tokens, answer.reasoning_tokens, answer.decode_s,
                     finish_name(answer.finish));
    return out;
}

std::string served_text(const Answer& answer, const RunFacts& facts) {
    const uint64_t used = answer.prompt_tokens + answer.completion_tokens;
    return cat(
        "server    ", server_text(facts), "; its page and /metrics show drives and caches\n",
        formatted("context   {} of {} tokens; mode {}; seed {}\n", used,
                  facts.context > 0 ? cat(facts.context) : std::string("an unknown number of"),
                  facts.mode, facts.seed),
        answer_text(answer, facts));
}

std::string run_text(const Answer& answer, const RunFacts& facts) {
    std::string ends;
    for (int32_t id : facts.end_tokens) ends += cat(ends.empty() ? "" : " ", id);
    std::string out = formatted("model     {}, {}, {}, loaded in {:.2f} s\n", facts.model,
                                facts.device, facts.io_name, facts.load_s);
    out += load_text(facts.load);
    out += formatted("context   {} of {} tokens; mode {}; seed {}; end tokens {}\n",
                     answer.prompt_tokens + answer.completion_tokens, facts.context, facts.mode,
                     facts.seed, ends);
    out += answer_text(answer, facts);
    out += limit_line("limit     ", limit_of(answer.decode, answer.decoded(), answer.decode_s));
    out += limit_line("  prompt  ", limit_of(answer.prompt, fed_tokens(answer), answer.prompt_s));
    return out;
}

std::string cache_text(const CacheStats& cache) {
    return formatted(
        "experts   {} requested, {} hits, {} evictions\n"
        "  prompt  {} requested, {} hits, {} chunks in groups, {} read ahead, {} of them dropped\n",
        cache.asked, percent(cache.hits, cache.asked), cache.evictions, cache.prompt_asked,
        percent(cache.prompt_hits, cache.prompt_asked), cache.chunks_grouped, cache.ahead_started,
        cache.ahead_dropped);
}

std::string vram_text(const RunStats& all) {
    const CacheStats& vram = all.vram;
    if (vram.asked + vram.prompt_asked == 0) return "";
    return formatted("vram      {} requested, {} hits, {} evictions; peak {}\n", vram.asked,
                     percent(vram.hits, vram.asked), vram.evictions,
                     size_text(all.device.memory_peak));
}

std::string device_text(const RunStats& all) {
    const auto& device = all.device;
    if (device.launches == 0) return "";
    const auto passes =
        static_cast<double>(std::max<uint64_t>(1, all.decode_tokens + (all.prompt_tokens > 0)));
    const auto per_pass = [&](uint64_t count) { return static_cast<double>(count) / passes; };
    return formatted(
        "gpu       per pass: {:.1f} launches ({:.1f} of CUDA graphs), {:.1f} copies to the host, "
        "{:.1f} waits; uploaded {} in {:.3f} s\n",
        per_pass(device.launches), per_pass(device.graphs), per_pass(device.downloads),
        per_pass(device.waits), size_text(device.upload_bytes), device.upload_s);
}

}  // namespace

std::string stats_block(const Answer& answer, const RunFacts& facts) {
    if (answer.prompt_tokens == 0) return "its tokens were not counted\n";
    const std::string speed = cat("speed     ", speed_details(answer, facts), "\n");
    if (!facts.server.empty()) return served_text(answer, facts) + speed;
    RunStats all = answer.prompt + answer.decode;
    const CacheStats& cache = all.cache;
    std::string out = run_text(answer, facts) + speed + cache_text(cache) + vram_text(all);
    if (all.cpu.asked > 0) out += cat("cpu       ", cpu_experts_text(all.cpu), "\n");
    out += device_text(all);
    out += formatted(
        "prefetch  {} started, {} used, {} wasted; correct guesses: {}; switched off {} times\n",
        cache.prefetch_started, cache.prefetch_used, cache.prefetch_wasted,
        percent(cache.guesses_right, cache.guesses), cache.prefetch_switched_off);
    if (cache.warmed > 0) {
        out += formatted("warm-up   {} experts of an earlier run read\n", cache.warmed);
    }
    out += formatted("rows      {} requested, {} hits\n", all.rows_asked,
                     percent(all.row_hits, all.rows_asked));
    out +=
        formatted("read      {} in {} reads, {:.3f} GB/s while busy; waited {:.3f} s\n",
                  size_text(all.ring.bytes), all.ring.reads, ring_rate(all) / 1e9, all.ring.wait_s);
    out += drive_lines(all.drives);
    return out;
}

std::string cpu_experts_text(const CpuExpertStats& cpu) {
    const auto speed = [&](double expert_s) {
        if (expert_s <= 0) return std::string("not measured");
        return formatted("{:.1f} GB/s", static_cast<double>(cpu.expert_bytes) / expert_s / 1e9);
    };
    return cat("computed ", cpu.computed, " of ", cpu.asked, " experts that were not in VRAM; CPU ",
               speed(cpu.cpu_s), ", link ", speed(cpu.link_s));
}

void write_cpu_experts(JsonWriter& json, const CpuExpertStats& cpu) {
    json.begin_object()
        .member("asked", cpu.asked)
        .member("computed", cpu.computed)
        .member("seconds", cpu.seconds)
        .member("cpu_s", cpu.cpu_s)
        .member("link_s", cpu.link_s)
        .member("expert_bytes", cpu.expert_bytes)
        .end_object();
}

void write_cache(JsonWriter& json, const CacheStats& c) {
    json.begin_object();
    c.for_each([&](const char* name, auto value) { json.member(name, value); });
    json.end_object();
}

void write_limit(JsonWriter& json, const Limit& limit) {
    json.begin_object();
    if (limit.tok_s > 0) {
        json.member("tok_s", limit.tok_s)
            .member("share", limit.share)
            .member("binds", limit.binds)
            .member("drive_s", limit.drive_s)
            .member("link_s", limit.link_s)
            .member("cpu_s", limit.cpu_s)
            .member("gpu_s", limit.gpu_s);
    } else {
        json.key("tok_s").null().key("share").null().key("binds").null();
    }
    json.end_object();
}

namespace {

void write_answer(JsonWriter& json, const Answer& answer, const RunFacts& facts) {
    json.member("text", answer.text)
        .member("reasoning", answer.reasoning)
        .member("reasoning_unclosed", answer.unclosed)
        .member("finish_reason", finish_name(answer.finish));
    if (answer.error) json.member("error", answer.error->message);
    json.key("usage")
        .begin_object()
        .member("prompt_tokens", answer.prompt_tokens)
        .member("completion_tokens", answer.completion_tokens)
        .member("total_tokens", answer.prompt_tokens + answer.completion_tokens)
        .member("reasoning_tokens", answer.reasoning_tokens)
        .member("cached_tokens", answer.cached_tokens)
        .key("prompt_tokens_details")
        .begin_object()
        .member("cached_tokens", answer.cached_tokens);
    if (facts.server.empty()) json.member("cached_by", kept_by_name(answer.cached_by));
    json.end_object().end_object();
}

void write_timings(JsonWriter& json, const Answer& answer, const RunFacts& facts) {
    const bool here = facts.server.empty();
    json.key("timings").begin_object();
    if (here) {
        json.member("load_s", facts.load_s)
            .member("load_bytes", facts.load.bytes)
            .member("load_read_s", facts.load.seconds);
    }
    json.member("prompt_s", answer.prompt_s)
        .member("decode_s", answer.decode_s)
        .member("prompt_tok_s", rate(static_cast<double>(fed_tokens(answer)), answer.prompt_s))
        .member("decode_tok_s", rate(static_cast<double>(answer.decoded()), answer.decode_s));
    if (here) json.member("compute_s", (answer.prompt + answer.decode).compute_s);
    json.end_object();
}

void write_device(JsonWriter& json, const RunStats& all) {
    json.key("vram");
    write_cache(json, all.vram);
    json.key("cpu_experts");
    write_cpu_experts(json, all.cpu);
    json.key("gpu").begin_object();
    json.member("launches", all.device.launches)
        .member("graphs", all.device.graphs)
        .member("waits", all.device.waits)
        .member("downloads", all.device.downloads)
        .member("upload_bytes", all.device.upload_bytes)
        .member("upload_s", all.device.upload_s)
        .member("busy_s", all.device.busy_s)
        .member("memory_peak", all.device.memory_peak);
    json.end_object();
}

// What only the process that ran the model knows.
void write_run(JsonWriter& json, const Answer& answer, const RunFacts& facts) {
    const RunStats all = answer.prompt + answer.decode;
    json.key("cache");
    write_cache(json, all.cache);
    if (all.device.launches > 0) write_device(json, all);
    json.key("io");
    write_io(json, all, facts);
    json.key("limit");
    write_limit(json, limit_of(answer.decode, answer.decoded(), answer.decode_s));
    json.key("prompt_limit");
    write_limit(json, limit_of(answer.prompt, fed_tokens(answer), answer.prompt_s));
}

}  // namespace

std::string answer_json(const Answer& answer, const RunFacts& facts) {
    const bool here = facts.server.empty();
    JsonWriter json;
    json.begin_object();
    write_answer(json, answer, facts);
    write_timings(json, answer, facts);
    if (here) write_run(json, answer, facts);
    json.member("seed", facts.seed).member("model", facts.model);
    if (here) {
        json.member("device", facts.device);
    } else {
        json.member("server", facts.server);
    }
    return json.end_object().text();
}

}  // namespace sluice
