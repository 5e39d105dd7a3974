// The two halves of tests/dev/api_clients.py that need this code: replies for real client libraries
// to read, and the requests that they sent. Both do nothing without SLUICE_API_FOLDER.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr const char* names[] = {"chat", "completions", "responses", "messages"};

void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

Answer answer() {
    Answer out;
    out.text = "It is \"sunny\".\nÜber 20 °C — 中";
    out.reasoning = "The user asks about the weather.";
    out.prompt_tokens = 20;
    out.cached_tokens = 12;
    out.completion_tokens = 9;
    out.reasoning_tokens = 4;
    const int32_t id = tiny_tokenizer().encode("a")[0];
    out.logprobs = {{{id, -0.5}, {{id, -0.5}, {id + 1, -1.5}}}};
    return out;
}

std::string stream(const Dialect& api, const ApiRequest& request, const Answer& answer) {
    const auto out = api.writer(request, facts());
    std::string bytes = out->keep_alive(2, 0) + out->begin() + out->keep_alive(0, 0.5);
    for (const char c : answer.reasoning) bytes += out->piece({.reasoning = std::string(1, c)});
    bytes += out->piece({.content = answer.text.substr(0, 9), .logprobs = answer.logprobs});
    bytes += out->piece({.content = answer.text.substr(9)});
    bytes += out->piece({.calls = answer.calls});
    return bytes + out->end(answer);
}

void write_replies(const std::filesystem::path& folder, const Dialect& api, const std::string& name,
                   const ApiRequest& request) {
    Answer plain = answer(), calls = answer(), failed = answer();
    if (name == "completions") plain.reasoning.clear();
    calls.finish = Finish::tool_calls;
    calls.calls = {{"", "weather", R"({"city":"Bern"})"}, {"", "time", "{}"}};
    failed.error = Error{Code::io, "shard 7: cannot read"};
    for (const auto& [kind, given] :
         {std::pair("plain", plain), std::pair("calls", calls), std::pair("failed", failed)}) {
        write(folder / cat(name, "-", kind, ".json"), api.writer(request, facts())->whole(given));
        write(folder / cat(name, "-", kind, ".sse"), stream(api, request, given));
    }
    write(folder / cat(name, "-401.json"), api.error(401, "the API key is wrong"));
    write(folder / cat(name, "-429.json"), api.error(429, "the queue is full"));
}

std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("replies for client libraries are written if a folder is given") {
    const char* folder = std::getenv("SLUICE_API_FOLDER");
    if (folder == nullptr) return;
    for (size_t i = 0; i < 4; ++i) {
        const Dialect& api = *api_routes()[i].dialect;
        const std::string asked = i == 0   ? R"("logprobs":true,"top_logprobs":2)"
                                  : i == 1 ? R"("logprobs":2)"
                                  : i == 2 ? R"("top_logprobs":2)"
                                           : "";
        auto request = parse_with(api_routes()[i].path, asked);
        REQUIRE(request);
        request->usage_in_stream = true;
        write_replies(folder, api, names[i], *request);
    }
}

TEST_CASE("requests that client libraries sent are understood if a folder is given") {
    const char* folder = std::getenv("SLUICE_API_FOLDER");
    if (folder == nullptr) return;
    for (size_t i = 0; i < 4; ++i) {
        for (int n = 0;; ++n) {
            const auto path = std::filesystem::path(folder) / cat(names[i], "-sent-", n, ".json");
            if (!std::filesystem::exists(path)) break;
            const auto request = api_routes()[i].dialect->parse(read(path), defaults());
            CHECK_MESSAGE(request, path.string(), ": ", (request ? "" : request.error().message));
            if (request) CHECK_MESSAGE(request->ignored.empty(), request->ignored);
        }
    }
}
