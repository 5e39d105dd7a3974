// Bodies that no client would send: parsing refuses them in one clean line, or makes a request that
// every writer can answer.
#include <fstream>
#include <iterator>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/support/random.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// The fuzzer's first inputs: one body for each API, in the order of the routes, with most fields.
std::vector<std::string> good_bodies() {
    std::vector<std::string> out;
    for (const char* name : {"chat", "completions", "responses", "messages"}) {
        const std::string path = cat(models_folder, "/../fuzz/http_body/", name, ".json");
        std::ifstream file(path);
        out.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        REQUIRE_MESSAGE(!out.back().empty(), path);
    }
    return out;
}

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
    const auto seeds = good_bodies();
    Random random(2024);
    for (size_t i = 0; i < seeds.size(); ++i) {
        const auto request = api_routes()[i].dialect->parse(seeds[i], defaults());
        CHECK_MESSAGE(request, (request ? "" : request.error().message));
    }
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
