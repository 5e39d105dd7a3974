// Bodies that no client would send: parsing refuses them in one clean line, or makes a request that
// every writer can answer.
#include "io/json.h"
#include "tests/support/random.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<std::string> seeds{
    R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"hi"}]},)"
    R"({"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},)"
    R"({"role":"tool","tool_call_id":"c","content":"r"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],)"
    R"("tool_choice":{"type":"function","function":{"name":"f"}},"temperature":0.5,"max_tokens":3,"stop":["a"],"logprobs":true,"top_logprobs":2,)"
    R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"a":[1,2.5,null]}}},"reasoning_effort":"high"})",
    R"({"prompt":[1,2,3],"logprobs":2,"logit_bias":{"5":0},"n":1,"echo":false,"seed":-4,"stop":"x"})",
    R"({"input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},)"
    R"({"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"r"}]},{"type":"reasoning","summary":[]},)"
    R"({"role":"user","content":[{"type":"input_text","text":"x"}]}],"instructions":"i","reasoning":{"effort":"low"},)"
    R"("text":{"format":{"type":"json_object"}},"tools":[{"type":"function","name":"f","parameters":{}}],"include":["message.output_text.logprobs"]})",
    R"({"max_tokens":9,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},)"
    R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"i","name":"f","input":{"a":1}}]},)"
    R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"r"}]}],"tools":[{"name":"f","input_schema":{}}],)"
    R"("tool_choice":{"type":"any"},"thinking":{"type":"enabled","budget_tokens":1024},"stop_sequences":["x"]})"};

// A value of another type, another name or another structure in the place of some token.
std::string mutated(std::string body, Random& random) {
    const std::vector<std::string> values{"null",
                                          "true",
                                          "0",
                                          "-1",
                                          "1e99",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "\"x\"",
                                          "[[]]",
                                          "{\"type\":5}",
                                          "9223372036854775808",
                                          "\"\\u0000\"",
                                          "[",
                                          "}",
                                          "\"",
                                          "\xff",
                                          ",",
                                          ":"};
    for (int n = random.below(4); n >= 0; --n) {
        const auto pick = [&](size_t size) {
            return static_cast<size_t>(random.below(static_cast<int>(size) + 1));
        };
        const size_t begin = body.find_first_of("\"[{0123456789", pick(body.size()));
        if (begin == std::string::npos) continue;
        size_t end = body.find_first_of(",:]}", begin);
        if (end == std::string::npos) end = body.size();
        switch (random.below(4)) {
            case 0:
                body.replace(begin, end - begin, values[pick(values.size() - 1)]);
                break;
            case 1:
                body.erase(begin, pick(20));
                break;
            case 2:
                body.insert(begin, body.substr(pick(body.size()), pick(30)));
                break;
            default:
                body[pick(body.size() - 1)] = static_cast<char>(random.next());
        }
        if (body.empty()) break;
    }
    return body;
}

Answer answer() {
    Answer out;
    out.text = "t";
    out.reasoning = "r";
    out.calls = {{"", "f", "{}"}};
    out.logprobs = {{{5, -1}, {{5, -1}}}};
    return out;
}

}  // namespace

TEST_CASE("mutated bodies are refused cleanly or can be answered") {
    Random random(2024);
    uint64_t accepted = 0, refused = 0;
    for (int i = 0; i < 100000; ++i) {
        const size_t seed = static_cast<size_t>(random.below(4));
        const std::string body = mutated(seeds[seed], random);
        const size_t route = random.below(4) == 0 ? static_cast<size_t>(random.below(4)) : seed;
        const Dialect& api = *api_routes()[route].dialect;
        const auto request = api.parse(body, defaults());
        if (!request) {
            ++refused;
            const std::string& message = request.error().message;
            const bool clean = !message.empty() && message.size() < 1000 &&
                               message.find_first_of("\n\x1b\xff") == std::string::npos &&
                               http_status(request.error().code) == 400;
            if (!clean) FAIL_CHECK(body << "\n" << message);
            continue;
        }
        ++accepted;
        const AnswerRequest& asked = request->answer;
        const bool sane = check(asked.sampler).has_value() && asked.predict >= -1 &&
                          asked.predict != 0 && asked.stop.size() <= 16 &&
                          (asked.text || !asked.ids.empty() || !asked.messages.empty());
        if (!sane) FAIL_CHECK(body);
        if (!Json::parse(api.writer(*request, facts())->whole(answer()))) FAIL_CHECK(body);
    }
    CHECK(accepted > 1000);
    CHECK(refused > 10000);
}
