// libFuzzer target: any bytes as what a server sends to `sluice chat URL`, whole and in pieces.
// tests/dev/fuzz.sh builds and runs it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/client/chat_stream.h"
#include "tools/client/response_reader.h"
#include "tools/client/server_error.h"
#include "tools/client/sse_reader.h"

using namespace sluice;

namespace {

void require(bool truth) {
    if (!truth) std::abort();
}

// An error's message becomes a line on a terminal.
void check_message(const Error& error) {
    require(!error.message.empty());
    for (const char c : error.message) {
        require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    }
}

// What became of a reply that came `piece` bytes at a time.
struct Outcome {
    std::string shown, comments, error;
    bool complete = false;
    bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(std::string_view bytes, size_t piece) {
    ResponseReader reader;
    SseReader events;
    ChatStream stream;
    Outcome out;
    const auto take = [&](const SseItem& item) -> Result<void> {
        if (item.kind == SseItem::Kind::comment) {
            out.comments += std::string(item.text) + '\n';
            return {};
        }
        if (stream.ended()) return {};
        auto one = stream.take(item.text);
        if (!one) return tl::unexpected(one.error());
        out.shown += one->reasoning + one->content;
        return {};
    };
    std::string body;
    for (size_t at = 0; at < bytes.size() && out.error.empty(); at += piece) {
        const auto state = reader.feed(bytes.substr(at, piece));
        const std::string part = reader.take_body();
        if (body.size() < 10'000) body += part;
        if (auto done = events.push(part, take); !done) {
            check_message(done.error());
            out.error = done.error().message;
        }
        if (state != ResponseReader::State::reading) break;
    }
    if (reader.head_done()) check_message(refusal_of({reader.status(), body, false, 0}));
    out.shown += stream.finish({"stop", "\n"}).content;
    const Answer& answer = stream.answer();
    require(answer.cached_tokens <= answer.prompt_tokens);
    require(answer.decode_s >= 0 && answer.decode_s < 1e9);
    out.complete = stream.complete();
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    // Bytes without an HTTP head are taken for the body of a stream.
    const std::string framed = bytes.starts_with("HTTP/")
                                   ? std::string(bytes)
                                   : "HTTP/1.1 200 OK\r\n\r\n" + std::string(bytes);
    require(outcome_of(framed, framed.size() + 1) == outcome_of(framed, 1));
    return 0;
}
