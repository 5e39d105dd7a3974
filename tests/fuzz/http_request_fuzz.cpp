// libFuzzer target: any bytes as what a client of the server sends, whole and in pieces.
// tests/dev/fuzz.sh builds and runs it.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tools/server/access.h"
#include "tools/server/request_reader.h"

using namespace sluice;

namespace {

constexpr HttpLimits limits{
    .body_max = 1000, .header_max = 500, .headers_max = 10, .target_max = 100};

void require(bool truth) {
    if (!truth) std::abort();
}

// What is promised of every request, whoever sent it.
void check(const HttpRequest& request) {
    uint64_t header_bytes = 0;
    for (const auto& [name, value] : request.headers) {
        header_bytes += name.size() + value.size();
        require(name == lower_case(name));
        for (const char c : name + value) require(c != '\n' && c != '\r' && c != '\0');
    }
    require(request.headers.size() <= limits.headers_max);
    require(header_bytes <= limits.header_max);
    require(request.body.size() <= limits.body_max);
    require(request.count("host") == 1);
    require(request.path == "*" || request.path.starts_with('/'));
    const AccessRules rules{{}, {}, {"the key that nobody knows"}};
    require(admit(rules, request, "10.0.0.7", "10.0.0.1", true).refused != 0);
}

// The requests in the bytes that come `piece` at a time, and whether a failure ended them.
std::vector<std::string> requests(std::string_view bytes, size_t piece) {
    RequestReader reader(limits);
    std::vector<std::string> out;
    auto state = RequestReader::State::reading;
    for (size_t at = 0; at < bytes.size(); at += piece) {
        state = reader.feed(bytes.substr(at, piece));
        while (state == RequestReader::State::complete) {
            const HttpRequest request = reader.take();
            check(request);
            out.push_back(request.method + request.path + request.body);
            state = reader.feed({});
        }
    }
    if (state == RequestReader::State::failed) {
        require(reader.status() >= 400 && reader.status() <= 505);
        out.push_back("failed");
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    require(requests(bytes, bytes.size() + 1) == requests(bytes, 1));
    return 0;
}
