// The events of /v1/responses, and streams of all APIs against whole replies.
#include "io/json.h"
#include "tests/support/random.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Event {
    std::string name;
    Json data;
};

// Splits a stream as clients do: events end at an empty line, comments are skipped.
std::vector<Event> events_of(std::string_view bytes) {
    std::vector<Event> out;
    while (!bytes.empty()) {
        const size_t end = bytes.find("\n\n");
        REQUIRE(end != std::string_view::npos);
        std::string_view block = bytes.substr(0, end);
        bytes.remove_prefix(end + 2);
        if (block.starts_with(":")) continue;
        Event event;
        if (block.starts_with("event: ")) {
            event.name = block.substr(7, block.find('\n') - 7);
            block.remove_prefix(block.find('\n') + 1);
        }
        REQUIRE(block.starts_with("data: "));
        block.remove_prefix(6);
        REQUIRE(block.find('\n') == std::string_view::npos);
        if (block == "[DONE]") {
            CHECK(bytes.empty());
            continue;
        }
        auto data = Json::parse(block);
        REQUIRE_MESSAGE(data, std::string(block));
        event.data = std::move(*data);
        out.push_back(std::move(event));
    }
    return out;
}

// What a client has at the end: "reasoning|text|call name arguments ...|finish".
struct Collected {
    std::string reasoning, text, calls, finish;
    bool operator==(const Collected&) const = default;
};

std::string text(const Json& value) {
    return value.is_string() ? value.string().value() : "";
}

Collected collect_chat(const std::vector<Event>& events) {
    Collected out;
    for (const Event& event : events) {
        const Json choice = event.data["choices"].at(0), delta = choice["delta"];
        out.reasoning += text(delta["reasoning_content"]);
        out.text += text(delta["content"]);
        for (size_t i = 0; i < delta["tool_calls"].size(); ++i) {
            const Json function = delta["tool_calls"].at(i)["function"];
            out.calls += cat(text(function["name"]), text(function["arguments"]));
        }
        if (choice["finish_reason"].is_string()) out.finish = text(choice["finish_reason"]);
    }
    return out;
}

Collected whole_chat(const Json& reply) {
    const Json choice = reply["choices"].at(0), message = choice["message"];
    Collected out{text(message["reasoning_content"]), text(message["content"]), "",
                  text(choice["finish_reason"])};
    for (size_t i = 0; i < message["tool_calls"].size(); ++i) {
        const Json function = message["tool_calls"].at(i)["function"];
        out.calls += cat(text(function["name"]), text(function["arguments"]));
    }
    return out;
}

Collected collect_responses(const std::vector<Event>& events) {
    Collected out;
    int64_t sequence = 0;
    for (const Event& event : events) {
        CHECK(text(event.data["type"]) == event.name);
        CHECK(event.data["sequence_number"].integer().value() == sequence++);
        if (event.name == "response.reasoning_text.delta")
            out.reasoning += text(event.data["delta"]);
        if (event.name == "response.output_text.delta") out.text += text(event.data["delta"]);
        if (event.name == "response.function_call_arguments.delta") {
            out.calls += text(event.data["delta"]);
        }
    }
    return out;
}

Collected whole_response(const Json& reply) {
    Collected out;
    for (size_t i = 0; i < reply["output"].size(); ++i) {
        const Json item = reply["output"].at(i);
        if (text(item["type"]) == "reasoning") out.reasoning += text(item["content"].at(0)["text"]);
        if (text(item["type"]) == "message") out.text += text(item["content"].at(0)["text"]);
        out.calls += text(item["arguments"]);
    }
    return out;
}

Collected collect_anthropic(const std::vector<Event>& events) {
    Collected out;
    int64_t open = -1;
    for (const Event& event : events) {
        CHECK(text(event.data["type"]) == event.name);
        const Json delta = event.data["delta"];
        if (event.name == "content_block_start") ++open;
        if (event.name.starts_with("content_block")) {
            CHECK(event.data["index"].integer().value() == open);
        }
        out.reasoning += text(delta["thinking"]);
        out.text += text(delta["text"]);
        out.calls += text(delta["partial_json"]);
        if (event.name == "message_delta") out.finish = text(delta["stop_reason"]);
    }
    return out;
}

// Random pieces of a random answer.
struct Script {
    Answer answer;
    std::vector<AnswerStream::Piece> pieces;
};

Script random_script(Random& random) {
    const std::vector<std::string> words{"a",           "é",    "\n", "\"",  "\\",
                                         "data: x\n\n", "\xff", "中", "\x01"};
    const auto add = [&](std::string& all, std::string& part) {
        for (int n = random.below(4); n >= 0; --n) {
            const auto& word =
                words[static_cast<size_t>(random.below(static_cast<int>(words.size())))];
            all += word;
            part += word;
        }
    };
    Script out;
    for (int n = random.below(4); n > 0; --n) {
        add(out.answer.reasoning, out.pieces.emplace_back().reasoning);
    }
    for (int n = random.below(5); n > 0; --n) {
        add(out.answer.text, out.pieces.emplace_back().content);
    }
    for (int n = random.below(3); n > 0; --n) {
        const ToolCall call{"", cat("f", n), cat(R"({"n":)", n, "}")};
        out.answer.calls.push_back(call);
        out.pieces.emplace_back().calls = {call};
    }
    if (!out.answer.calls.empty()) out.answer.finish = Finish::tool_calls;
    out.answer.completion_tokens = out.pieces.size();
    return out;
}

std::string stream_of(std::string_view path, const Script& script, Random& random) {
    const auto out = dialect(path).writer(*parse_with(path, ""), facts());
    std::string bytes = out->keep_alive(1, 0) + out->begin();
    for (const auto& piece : script.pieces) {
        bytes += out->piece(piece);
        if (random.below(4) == 0) bytes += out->keep_alive(0, 1);
        if (random.below(4) == 0) bytes += out->piece({});
    }
    return bytes + out->end(script.answer);
}

Json whole_of(std::string_view path, const Answer& answer) {
    auto json = Json::parse(dialect(path).writer(*parse_with(path, ""), facts())->whole(answer));
    REQUIRE(json);
    return *json;
}

}  // namespace

TEST_CASE("the pieces of a stream together are the whole reply in every API") {
    Random random(12);
    for (int i = 0; i < 300; ++i) {
        const Script script = random_script(random);
        CHECK(collect_chat(events_of(stream_of(chat, script, random))) ==
              whole_chat(whole_of(chat, script.answer)));
        CHECK(collect_responses(events_of(stream_of(responses, script, random))) ==
              whole_response(whole_of(responses, script.answer)));
        auto events = events_of(stream_of(anthropic, script, random));
        std::erase_if(events, [](const Event& event) { return event.name == "ping"; });
        const Collected collected = collect_anthropic(events);
        const Json message = whole_of(anthropic, script.answer);
        Collected wanted{"", "", "", text(message["stop_reason"])};
        for (size_t n = 0; n < message["content"].size(); ++n) {
            const Json block = message["content"].at(n);
            wanted.reasoning += text(block["thinking"]);
            wanted.text += text(block["text"]);
            const Json number = block["input"]["n"];
            if (number.is_number()) wanted.calls += cat(R"({"n":)", *number.integer(), "}");
        }
        CHECK(collected == wanted);
        std::string completion;
        for (const Event& event : events_of(stream_of(completions, script, random))) {
            completion += text(event.data["choices"].at(0)["text"]);
        }
        CHECK(completion == text(whole_of(completions, script.answer)["choices"].at(0)["text"]));
    }
}

TEST_CASE("responses: the events come in the order that clients need") {
    Script script;
    script.answer.calls = {{"c", "f", "{}"}};
    script.answer.finish = Finish::tool_calls;
    script.pieces = {
        {.reasoning = "r"}, {.content = "a"}, {.content = "b"}, {.calls = script.answer.calls}};
    Random random(1);
    std::string names;
    const auto events = events_of(stream_of(responses, script, random));
    for (const Event& event : events) {
        names += event.name.substr(9);
        const Json index = event.data["output_index"];
        if (index.is_number()) names += cat(" ", *index.integer());
        names += "\n";
    }
    CHECK(names ==
          "created\nin_progress\n"
          "output_item.added 0\ncontent_part.added 0\nreasoning_text.delta 0\n"
          "reasoning_text.done 0\ncontent_part.done 0\noutput_item.done 0\n"
          "output_item.added 1\ncontent_part.added 1\noutput_text.delta 1\noutput_text.delta 1\n"
          "output_text.done 1\ncontent_part.done 1\noutput_item.done 1\n"
          "output_item.added 2\nfunction_call_arguments.delta 2\nfunction_call_arguments.done 2\n"
          "output_item.done 2\ncompleted\n");
    const Json last = events.back().data["response"];
    CHECK(text(last["status"]) == "completed");
    CHECK(last["output"].size() == 3);
    CHECK(text(last["output"].at(1)["content"].at(0)["text"]) == "ab");
    CHECK(text(last["output"].at(2)["call_id"]) == "c");
    CHECK(events.front().data["response"]["usage"].is_null());
}

TEST_CASE("responses: a whole reply repeats what was asked and counts the tokens") {
    const auto request = parse_with(
        responses,
        R"("tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],)"
        R"("tool_choice":{"type":"function","name":"f"},"max_output_tokens":5,"top_p":1,)"
        R"("text":{"format":{"type":"json_schema","name":"n","schema":{"a":1}}})");
    REQUIRE_MESSAGE(request, (request ? "" : request.error().message));
    Answer answer;
    answer.text = "x";
    answer.finish = Finish::length;
    answer.prompt_tokens = 5;
    answer.completion_tokens = 3;
    CHECK(dialect(responses).writer(*request, facts())->whole(answer) ==
          R"({"id":"resp_0000000000000abc","object":"response","created_at":1700000000,)"
          R"("model":"tiny","status":"incomplete","error":null,)"
          R"("incomplete_details":{"reason":"max_output_tokens"},)"
          R"("output":[{"id":"msg_0000000000000abc_0","type":"message","role":"assistant",)"
          R"("content":[{"type":"output_text","text":"x","annotations":[],"logprobs":[]}],)"
          R"("status":"completed"}],"max_output_tokens":5,"parallel_tool_calls":true,)"
          R"("store":false,"temperature":1,"top_p":1,"truncation":"disabled",)"
          R"("previous_response_id":null,"metadata":{},)"
          R"("text":{"format":{"type":"json_schema","name":"schema","schema":{"a": 1}}},)"
          R"("tools":[{"type":"function","name": "f", "parameters": {"type": "object"}}],)"
          R"("tool_choice":{"type":"function","name":"f"},)"
          R"("usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":0,)"
          R"("cache_write_tokens":0},"output_tokens":3,)"
          R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":8},)"
          R"("timings":{"cache_n":0,"prompt_n":5,"prompt_ms":0,"prompt_per_token_ms":0,)"
          R"("prompt_per_second":0,"predicted_n":2,"predicted_ms":0,"predicted_per_token_ms":0,)"
          R"("predicted_per_second":0}})");
}
