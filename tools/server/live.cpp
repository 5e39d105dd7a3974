#include "tools/server/live.h"

#include <algorithm>

#include "io/format.h"
#include "io/text.h"
#include "tools/answer/json_writer.h"
#include "tools/answer/report.h"

namespace sluice {

namespace {

uint64_t count_places(const CachedExperts& experts, uint8_t place) {
    return static_cast<uint64_t>(std::count_if(experts.places.begin(), experts.places.end(),
                                               [&](uint8_t one) { return (one & place) != 0; }));
}

void write_tier(JsonWriter& json, const CacheStats& stats, uint64_t used, uint32_t slots) {
    if (slots == 0) {
        json.null();
        return;
    }
    json.begin_object().key("hit_rate");
    if (stats.asked > 0) {
        json.value(rate(static_cast<double>(stats.hits), static_cast<double>(stats.asked)));
    } else {
        json.null();
    }
    json.member("used", used).member("slots", slots).end_object();
}

void write_speed(JsonWriter& json, const Note& note) {
    const auto number = [&](const char* name, double value) {
        json.key(name);
        value > 0 ? json.value(value) : json.null();
    };
    number("tok_s", note.tok_s);
    number("limit_tok_s", note.limit_tok_s);
    json.key("binds");
    note.binds.empty() ? json.null() : json.value(note.binds);
}

void write_running(JsonWriter& json, const AnswerJob* job) {
    if (!job) {
        json.null();
        return;
    }
    json.begin_object()
        .member("prompt_done", job->tokens > 0 ? 1.0 : job->prompt_done.load())
        .member("tokens", job->tokens.load())
        .end_object();
}

// The lines of one metric: its help, its type, and a line for each of its samples.
class Metrics {
 public:
    void begin(const char* name, const char* type, const char* help) {
        name_ = name;
        text_ += cat("# HELP sluice_", name, " ", help, "\n# TYPE sluice_", name, " ", type, "\n");
    }
    // `labels`: {key="value"}, or nothing. Values are names of our own: nothing to escape.
    Metrics& sample(double value, const std::string& labels = {}) {
        text_ += formatted("sluice_{}{} {:.17g}\n", name_, labels, value);
        return *this;
    }
    Metrics& sample(uint64_t value, const std::string& labels = {}) {
        text_ += cat("sluice_", name_, labels, " ", value, "\n");
        return *this;
    }
    void only(const char* name, const char* type, const char* help, auto value) {
        begin(name, type, help);
        sample(value);
    }
    std::string take() { return std::move(text_); }

 private:
    std::string_view name_;
    std::string text_;
};

void add_answers(Metrics& out, const AnswerTotals& t) {
    out.only("answers_total", "counter", "Answers that ended, however.", t.answers);
    out.only("prompt_tokens_total", "counter", "Tokens of prompts, with those kept from earlier.",
             t.prompt_tokens);
    out.only("cached_tokens_total", "counter", "Tokens of prompts that did not have to be read.",
             t.cached_tokens);
    out.only("completion_tokens_total", "counter", "Tokens generated.", t.completion_tokens);
    out.only("prompt_seconds_total", "counter", "Time spent on prompts.", t.prompt_s);
    out.only("decode_seconds_total", "counter", "Time spent generating tokens.", t.decode_s);
}

void add_experts(Metrics& out, const Note& note) {
    const CacheStats& ram = note.run.cache;
    const CacheStats& vram = note.run.vram;
    const std::string in_ram = "{tier=\"ram\"}", in_vram = "{tier=\"vram\"}";
    out.begin("experts_requested_total", "counter", "Experts that generated tokens needed.");
    out.sample(ram.asked, in_ram).sample(vram.asked, in_vram);
    out.begin("experts_hit_total", "counter", "Those of them that were in memory.");
    out.sample(ram.hits, in_ram).sample(vram.hits, in_vram);
    out.begin("experts_cached", "gauge", "Experts in memory.");
    out.sample(count_places(note.experts, CachedExperts::in_ram), in_ram)
        .sample(count_places(note.experts, CachedExperts::in_vram), in_vram);
}

void add_drives(Metrics& out, const std::vector<DriveStats>& drives) {
    const auto label = [](size_t drive) { return cat("{drive=\"", drive, "\"}"); };
    out.begin("drive_read_bytes_total", "counter", "Bytes read, by number of the drive.");
    for (size_t i = 0; i < drives.size(); ++i) out.sample(drives[i].bytes, label(i));
    out.begin("drive_busy_seconds_total", "counter", "Time with a read in flight.");
    for (size_t i = 0; i < drives.size(); ++i) out.sample(drives[i].busy_s, label(i));
}

}  // namespace

std::string live_json(const ServedModel& model, const Note& note, const RequestQueue& queue) {
    const Settings& settings = model.run->engine->settings();
    const AnswerTotals& totals = note.totals;
    const auto running = queue.running();
    JsonWriter json;
    json.begin_object()
        .member("model", model.name)
        .member("device", model.run->facts.device)
        .member("context", model.run->facts.context);
    write_speed(json, note);
    json.key("drives").begin_array();
    for (size_t i = 0; i < note.run.drives.size(); ++i) {
        const double now = running && i < note.drive_bytes_s.size() ? note.drive_bytes_s[i] : 0;
        json.begin_object().member("bytes", note.run.drives[i].bytes).member("bytes_s", now);
        json.end_object();
    }
    json.end_array().key("tiers").begin_object().key("ram");
    write_tier(json, note.run.cache, count_places(note.experts, CachedExperts::in_ram),
               settings.cache_slots);
    json.key("vram");
    write_tier(json, note.run.vram, count_places(note.experts, CachedExperts::in_vram),
               settings.vram_slots);
    json.end_object().member("queue", queue.waiting()).key("running");
    write_running(json, running.get());
    json.key("totals")
        .begin_object()
        .member("answers", totals.answers)
        .member("prompt_tokens", totals.prompt_tokens)
        .member("cached_tokens", totals.cached_tokens)
        .member("completion_tokens", totals.completion_tokens)
        .member("prompt_s", totals.prompt_s)
        .member("decode_s", totals.decode_s)
        .end_object();
    return json.end_object().text();
}

std::string experts_json(const CachedExperts& experts) {
    JsonWriter json;
    json.begin_object().member("layers", experts.layers).member("experts", experts.experts);
    json.key("cached").begin_array();
    const auto width = static_cast<size_t>(experts.experts);
    for (size_t at = 0; at + width <= experts.places.size() && width > 0; at += width) {
        std::string row(width, '0');
        for (size_t i = 0; i < width; ++i) {
            row[i] = static_cast<char>('0' + experts.places[at + i]);
        }
        json.value(row);
    }
    return json.end_array().end_object().text();
}

std::string metrics_text(const Monitor& monitor, const RequestQueue& queue, size_t connections) {
    const Note note = monitor.latest();
    Metrics out;
    out.begin("requests_total", "counter", "Requests answered, by endpoint and HTTP status.");
    for (const auto& [key, count] : monitor.replies()) {
        out.sample(count, cat("{endpoint=\"", key.first, "\",status=\"", key.second, "\"}"));
    }
    add_answers(out, note.totals);
    out.only("queue_length", "gauge", "Requests that wait.", uint64_t{queue.waiting()});
    out.only("running", "gauge", "Requests that are being answered: 0 or 1.",
             uint64_t{queue.running() != nullptr});
    out.only("queue_refused_total", "counter", "Requests refused because the queue was full.",
             monitor.refusals());
    out.only("connections", "gauge", "Open connections.", uint64_t{connections});
    out.only("tokens_per_second", "gauge", "Speed of the running or the last answer.", note.tok_s);
    out.only("limit_tokens_per_second", "gauge",
             "Speed that the hardware allowed in the running or the last answer.",
             note.limit_tok_s);
    add_experts(out, note);
    add_drives(out, note.run.drives);
    return out.take();
}

}  // namespace sluice
