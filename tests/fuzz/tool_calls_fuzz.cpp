// libFuzzer target: any bytes as an answer with tool calls. Byte 255 is the marker, 254 a cut, 253
// another control token. Start with tests/fuzz/tool_calls_corpus.
// tests/dev/fuzz.sh builds and runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/text/deepseek_v41.h"
#include "engine/text/tool_call_parser.h"
#include "io/json.h"

using namespace sluice;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

void check_calls(const std::vector<ToolCall>& calls) {
    require(!calls.empty() && calls.size() <= ToolCallParser::calls_max, "a block has calls");
    for (const ToolCall& call : calls) {
        require(!call.name.empty(), "a call has a name");
        const auto json = Json::parse(call.arguments);
        require(json && json->is_object(), "arguments are a JSON object");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    ToolCallParser parser(deepseek_v41_tools, "call_");
    std::string whole, shown, piece;
    std::vector<ToolCall> calls;
    const auto take = [&](const ToolCallParser::Piece& part) {
        shown += part.content;
        if (!part.calls.empty()) require(calls.empty() && parser.closed(), "calls come once");
        calls.insert(calls.end(), part.calls.begin(), part.calls.end());
    };
    const auto cut = [&] {
        if (!piece.empty()) take(parser.text(piece));
        whole += piece;
        piece.clear();
    };
    for (size_t i = 0; i < size; ++i) {
        if (data[i] < 253) {
            piece += static_cast<char>(data[i]);
            continue;
        }
        cut();
        if (data[i] == 255) {
            take(parser.marker());
            whole += deepseek_v41_tools.marker;
        }
        if (data[i] == 253) take(parser.interrupt());
    }
    cut();
    take(parser.finish());
    require(parser.closed() == !calls.empty(), "a closed block has calls");
    if (parser.closed()) {
        require(parser.malformed().empty(), "calls come from a good block");
        require(whole.starts_with(shown), "the content is what was before the block");
        check_calls(calls);
    } else {
        require(shown == whole, "without calls, all is content");
    }
    return 0;
}
