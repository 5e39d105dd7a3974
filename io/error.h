// The one error type. No exception crosses a function declared in our headers: libraries that throw
// are caught where they are called. Asserts are for our own bugs, Error is for the world's.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace sluice {

enum class Code {
    usage,        // a flag, a request, a prompt that cannot be
    not_found,    // a file or tensor that should be there
    corrupt,      // bytes that contradict themselves or their index
    unsupported,  // well formed, but nothing here handles it
    io,           // the drive or the file system failed
    no_memory,    // does not fit the budget or the machine
    device,       // GPU or CPU cannot do it
    mismatch,     // computed and expected values differ
    numerical,    // a logit that is not finite
    interrupted,  // the user stopped it
};

struct Error {
    Code code;
    std::string message;  // one clause, no newline: "shard 7: tensor ends past the file"
};

template <class T = void>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(Code code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Adds what only this level knows in front: within("shard 7", error) -> "shard 7: ...".
inline tl::unexpected<Error> within(std::string_view where, Error error) {
    error.message = std::string(where) + ": " + error.message;
    return tl::unexpected<Error>(std::move(error));
}

}  // namespace sluice
