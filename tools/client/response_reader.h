// Reads one HTTP response from the bytes of a connection, however they are cut. Every byte is
// hostile. Pure; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace sluice {

class ResponseReader {
 public:
    enum class State { reading, complete, failed };
    static constexpr size_t header_max = 64 << 10;  // bytes of all headers
    static constexpr size_t headers_max = 100;

    ResponseReader();
    ~ResponseReader();
    ResponseReader(const ResponseReader&) = delete;
    ResponseReader& operator=(const ResponseReader&) = delete;

    // What comes behind the response is dropped.
    State feed(std::string_view bytes);
    // The connection was closed: the end of a body without a length, else a failure.
    State end();

    bool head_done() const;
    // Requires head_done().
    int status() const;
    // The value of the first header with this name, given in lower case; null: there is none.
    const std::string* header(std::string_view name) const;
    // What has come of the body since the last call; the reader keeps no more than one feed() adds.
    std::string take_body();
    // Why it failed: one clause, nothing of it is the server's text.
    const std::string& problem() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
