// Source of trace.h: the part that reads and writes trace files.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/trace/trace.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/json.h"
#include "io/output_file.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t file_limit = 256u << 20;
constexpr const char* reference_format = "sluice-reference-trace-1";
constexpr const char* own_format = "sluice-trace-1";

std::string float_text(float value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, value);  // shortest that reads back
    return std::string(text, end.ptr);
}

Result<std::vector<int32_t>> read_ids(const Json& list) {
    auto wide = list.integers();
    if (!wide) return tl::unexpected(wide.error());
    std::vector<int32_t> ids;
    for (int64_t id : *wide) {
        if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
            return fail(Code::corrupt, cat(list.path(), ": ", id, " is not a token id"));
        }
        ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

// The comparison relies on best ids that are distinct and best first.
Result<void> check_best(const Json& json, const TraceStep& step) {
    for (size_t i = 1; i < step.ids.size(); ++i) {
        const auto place = step.ids.begin() + static_cast<ptrdiff_t>(i);
        if (std::find(step.ids.begin(), place, *place) != place) {
            return fail(Code::corrupt, cat(json.path(), ".top_ids: ", *place, " appears twice"));
        }
        if (step.logits[i] <= step.logits[i - 1]) continue;
        return fail(Code::corrupt,
                    cat(json.path(), ".top_logits: not best first: ", float_text(step.logits[i]),
                        " after ", float_text(step.logits[i - 1])));
    }
    return {};
}

// top_ids and top_logits of `json`, into `step`.
Result<void> read_best(const Json& json, TraceStep& step) {
    auto ids = read_ids(json["top_ids"]);
    if (!ids) return tl::unexpected(ids.error());
    const Json logits = json["top_logits"];
    if (ids->empty() || !logits.is_array() || logits.size() != ids->size()) {
        return fail(
            Code::corrupt,
            cat(json.path(), ": top_ids and top_logits must be lists of equal length, not empty"));
    }
    step.ids = std::move(*ids);
    for (size_t i = 0; i < logits.size(); ++i) {
        auto value = logits.at(i).number();
        if (!value) return tl::unexpected(value.error());
        if (std::abs(*value) > std::numeric_limits<float>::max()) {
            return fail(Code::corrupt, cat(logits.at(i).path(), ": outside the range of fp32"));
        }
        step.logits.push_back(static_cast<float>(*value));
    }
    return check_best(json, step);
}

Result<int32_t> read_position(const Json& json) {
    auto position = json["pos"].integer();
    if (!position) return tl::unexpected(position.error());
    if (*position >= 0 && *position <= std::numeric_limits<int32_t>::max()) {
        return static_cast<int32_t>(*position);
    }
    return fail(Code::corrupt, cat(json["pos"].path(), ": ", *position, " is not a position"));
}

enum class Of { prompt, answer };

// An answer's step may omit its token. A prompt step chooses none: the field is absent or -1.
Result<void> read_token(const Json& json, Of of, TraceStep& step) {
    if (!json.has("token")) return {};
    auto token = json["token"].integer();
    if (!token) return tl::unexpected(token.error());
    const std::string path = json["token"].path();
    if (of == Of::prompt) {
        if (*token == -1) return {};
        return fail(Code::corrupt, cat(path, ": ", *token, ", but a prompt step has no token"));
    }
    if (*token < 0 || *token > std::numeric_limits<int32_t>::max()) {
        return fail(Code::corrupt, cat(path, ": ", *token, " is not a token id"));
    }
    step.token = static_cast<int32_t>(*token);
    return {};
}

Result<TraceStep> read_step(const Json& json, bool exact, Of of) {
    TraceStep step;
    auto position = read_position(json);
    if (!position) return tl::unexpected(position.error());
    step.position = *position;
    if (auto r = read_best(json, step); !r) return tl::unexpected(r.error());
    if (auto r = read_token(json, of, step); !r) return tl::unexpected(r.error());
    if (!exact) return step;
    auto text = json["checksum"].string();
    if (!text) return tl::unexpected(text.error());
    const char* end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, step.logits_checksum, 16);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
        return fail(Code::corrupt, cat(json.path(), ".checksum: expected 16 hexadecimal digits"));
    }
    return step;
}

Result<void> require_list(const Json& json) {
    if (json.is_array()) return {};
    return fail(Code::corrupt, cat(json.path(), ": must be a list"));
}

Result<std::vector<TraceStep>> read_steps(const Json& list, bool exact, Of of) {
    if (auto r = require_list(list); !r) return tl::unexpected(r.error());
    std::vector<TraceStep> steps;
    for (size_t i = 0; i < list.size(); ++i) {
        auto step = read_step(list.at(i), exact, of);
        if (!step) return tl::unexpected(step.error());
        steps.push_back(std::move(*step));
    }
    return steps;
}

// What a draft head proposed: not compared here, but checked to be whole.
Result<void> check_draft(const Json& draft) {
    if (auto position = read_position(draft); !position) return tl::unexpected(position.error());
    auto ids = read_ids(draft["ids"]);
    if (!ids) return tl::unexpected(ids.error());
    const Json confidence = draft["confidence"], slots = draft["slots"];
    for (const Json& list : {confidence, slots}) {
        if (auto r = require_list(list); !r) return r;
        if (list.size() + 1 == ids->size()) continue;
        return fail(Code::corrupt,
                    cat(list.path(), ": ", list.size(), " for ", ids->size(), " ids"));
    }
    for (size_t i = 0; i < slots.size(); ++i) {
        if (auto r = confidence.at(i).number(); !r) return tl::unexpected(r.error());
        TraceStep best;
        if (auto r = read_best(slots.at(i), best); !r) return r;
    }
    return {};
}

// The conversation that the prompt encodes and a draft head's proposals: checked if present.
Result<void> check_notes(const Json& root) {
    const Json messages = root["messages"], drafts = root["drafts"];
    for (const char* key : {"messages", "drafts"}) {
        if (!root.has(key)) continue;
        if (auto r = require_list(root[key]); !r) return r;
    }
    for (size_t i = 0; i < messages.size(); ++i) {
        for (const char* key : {"role", "content"}) {
            if (auto text = messages.at(i)[key].string(); !text) {
                return tl::unexpected(text.error());
            }
        }
    }
    for (size_t i = 0; i < drafts.size(); ++i) {
        if (auto r = check_draft(drafts.at(i)); !r) return r;
    }
    if (!root.has("mode")) return {};
    auto mode = root["mode"].string();
    if (!mode) return tl::unexpected(mode.error());
    if (*mode == "chat" || *mode == "thinking") return {};
    return fail(Code::unsupported,
                cat("mode: \"", printable(*mode), "\" is neither \"chat\" nor \"thinking\""));
}

// Greedy: each token has the highest logit of its step; among equals it may be any.
Result<void> check_chosen(const Trace& trace) {
    for (size_t i = 0; i < trace.steps.size(); ++i) {
        const TraceStep& step = trace.steps[i];
        const auto at = std::find(step.ids.begin(), step.ids.end(), trace.tokens[i]);
        if (at != step.ids.end() && step.logits[at - step.ids.begin()] == step.logits[0]) continue;
        return fail(Code::corrupt,
                    cat("steps[", i, "].top_ids: ", step.ids[0], " is the best id, but tokens[", i,
                        "] is ", trace.tokens[i]));
    }
    return {};
}

// Every step has the position of its logits: the prompt's last, then those of the tokens.
Result<void> check_places(const Trace& trace) {
    if (trace.prompt.empty()) return fail(Code::corrupt, "prompt: is empty");
    if (trace.steps.size() != trace.tokens.size()) {
        return fail(Code::corrupt,
                    cat("steps: ", trace.steps.size(), " for ", trace.tokens.size(), " tokens"));
    }
    const auto first = static_cast<int32_t>(trace.prompt.size()) - 1;
    for (size_t i = 0; i < trace.steps.size(); ++i) {
        if (trace.steps[i].token != -1 && trace.steps[i].token != trace.tokens[i]) {
            return fail(Code::corrupt, cat("steps[", i, "].token: ", trace.steps[i].token,
                                           " instead of tokens[", i, "], ", trace.tokens[i]));
        }
        if (trace.steps[i].position == first + static_cast<int32_t>(i)) continue;
        return fail(Code::corrupt, cat("steps[", i, "].pos: ", trace.steps[i].position,
                                       " instead of ", first + static_cast<int32_t>(i)));
    }
    if (!trace.prompt_steps.empty() && trace.prompt_steps.size() != trace.prompt.size()) {
        return fail(Code::corrupt, cat("prompt_steps: ", trace.prompt_steps.size(), " for ",
                                       trace.prompt.size(), " prompt tokens"));
    }
    for (size_t i = 0; i < trace.prompt_steps.size(); ++i) {
        if (trace.prompt_steps[i].position == static_cast<int32_t>(i)) continue;
        return fail(Code::corrupt, cat("prompt_steps[", i, "].pos is not ", i));
    }
    return {};
}

Result<void> read_tolerance(const Json& root, Trace& trace) {
    const Json tolerance = root["tolerance"];
    for (auto [name, value] : {std::pair("tie_margin", &trace.tie_margin),
                               std::pair("logits_rel_median", &trace.rel_median),
                               std::pair("logits_rel_max", &trace.rel_max)}) {
        auto number = tolerance[name].number();
        if (!number) return tl::unexpected(number.error());
        if (*number < 0) {
            return fail(Code::corrupt, cat(tolerance[name].path(), ": must not be below 0"));
        }
        *value = *number;
    }
    return {};
}

Result<void> read_lists(const Json& root, Trace& trace) {
    auto prompt = read_ids(root["prompt"]);
    if (!prompt) return tl::unexpected(prompt.error());
    trace.prompt = std::move(*prompt);
    auto tokens = read_ids(root["tokens"]);
    if (!tokens) return tl::unexpected(tokens.error());
    trace.tokens = std::move(*tokens);
    auto steps = read_steps(root["steps"], trace.exact, Of::answer);
    if (!steps) return tl::unexpected(steps.error());
    trace.steps = std::move(*steps);
    if (root.has("prompt_steps")) {
        auto prompt_steps = read_steps(root["prompt_steps"], trace.exact, Of::prompt);
        if (!prompt_steps) return tl::unexpected(prompt_steps.error());
        trace.prompt_steps = std::move(*prompt_steps);
    }
    if (auto r = check_places(trace); !r) return r;
    return check_chosen(trace);
}

Result<Trace> read_json(const Json& root) {
    Trace trace;
    auto format = root["format"].string();
    if (!format) return tl::unexpected(format.error());
    if (*format != reference_format && *format != own_format) {
        return fail(Code::unsupported, cat("format: \"", printable(*format), "\" is neither \"",
                                           reference_format, "\" nor \"", own_format, "\""));
    }
    trace.exact = *format == own_format;
    if (root.has("index_keys")) {
        auto keys = root["index_keys"].string();
        if (!keys) return tl::unexpected(keys.error());
        if (*keys != "own" && *keys != "reference") {
            return fail(Code::unsupported, cat("index_keys: \"", printable(*keys),
                                               "\" is neither \"own\" nor \"reference\""));
        }
        trace.index_keys = *keys == "own" ? IndexKeys::own : IndexKeys::reference;
    }
    for (auto [name, text] :
         {std::pair("model", &trace.model), std::pair("origin", &trace.origin)}) {
        if (!root.has(name)) continue;
        auto value = root[name].string();
        if (!value) return tl::unexpected(value.error());
        *text = std::move(*value);
    }
    if (!trace.exact) {
        if (auto r = read_tolerance(root, trace); !r) return tl::unexpected(r.error());
    }
    if (auto r = read_lists(root, trace); !r) return tl::unexpected(r.error());
    if (auto r = check_notes(root); !r) return tl::unexpected(r.error());
    return trace;
}

template <class T, class Text>
std::string list_text(const std::vector<T>& values, Text text) {
    std::string out = "[";
    for (const T& value : values) {
        if (out.size() > 1) out += ',';
        out += text(value);
    }
    return out + "]";
}

std::string ids_text(const std::vector<int32_t>& ids) {
    return list_text(ids, [](int32_t id) { return cat(id); });
}

std::string steps_text(const std::vector<TraceStep>& steps) {
    return list_text(steps, [](const TraceStep& step) {
        return cat("\n{\"pos\":", step.position, ",\"token\":", step.token,
                   ",\"top_ids\":", ids_text(step.ids),
                   ",\"top_logits\":", list_text(step.logits, float_text), ",\"checksum\":\"",
                   checksum_text(step.logits_checksum), "\"}");
    });
}

}  // namespace

Result<Trace> read_trace(const std::filesystem::path& path) {
    auto text = read_text(path, file_limit);
    if (!text) return tl::unexpected(text.error());
    auto root = Json::parse(*text);
    auto trace = root ? read_json(*root) : tl::unexpected(root.error());
    if (!trace) {
        Error error = trace.error();
        if (error.code == Code::corrupt) {
            error.message += "; the file is damaged: get the trace again";
        }
        return within(printable(path.string()), std::move(error));
    }
    trace->name = path.filename().string();
    return trace;
}

std::string trace_text(const Trace& trace) {
    return cat("{\"format\":\"", own_format, "\",\"model\":", json_quote(trace.model),
               ",\"index_keys\":\"", trace.index_keys == IndexKeys::own ? "own" : "reference",
               "\",\"origin\":", json_quote(trace.origin), ",\n\"prompt\":", ids_text(trace.prompt),
               ",\n\"tokens\":", ids_text(trace.tokens), ",\n\"steps\":", steps_text(trace.steps),
               ",\n\"prompt_steps\":", steps_text(trace.prompt_steps), "}\n");
}

Result<void> write_trace(const std::filesystem::path& path, const Trace& trace) {
    return write_file_whole(path, trace_text(trace), 0644);
}

Result<std::filesystem::path> trace_output(const std::filesystem::path& path) {
    return output_file("-o", path, cat("{\"format\":\"", own_format, "\""));
}

Result<std::vector<std::filesystem::path>> find_traces(const std::vector<std::string>& paths) {
    std::vector<std::filesystem::path> found;
    for (const std::string& text : paths) {
        const std::filesystem::path path(text);
        if (auto closed = no_permission(path, R_OK)) return tl::unexpected(std::move(*closed));
        if (!is_folder(path)) {
            if (!is_there(path)) {
                return fail(Code::not_found, cat(printable(text), ": no such trace"));
            }
            found.push_back(path);
            continue;
        }
        std::error_code error;
        std::vector<std::filesystem::path> inside;
        for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
            if (entry.path().extension() == ".json") inside.push_back(entry.path());
        }
        if (inside.empty()) {
            return fail(Code::not_found, cat(printable(text), ": contains no traces (*.json)"));
        }
        std::sort(inside.begin(), inside.end());
        found.insert(found.end(), inside.begin(), inside.end());
    }
    return found;
}

}  // namespace sluice
