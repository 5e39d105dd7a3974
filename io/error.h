// The only error type. No function declared in our headers throws: a library's exceptions are
// caught where the library is called. Asserts catch our own bugs; Error reports everything else.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace sluice {

enum class Code {
    usage,        // an invalid flag, request or prompt
    not_found,    // a required file or tensor is missing
    corrupt,      // data that contradicts itself or its index
    unsupported,  // well formed, but not handled here
    io,           // the drive or the file system failed
    no_memory,    // does not fit the budget or the machine
    device,       // the GPU, the CPU or the kernel cannot do it
    mismatch,     // computed and expected values differ
    numerical,    // a non-finite logit
    interrupted,  // stopped by the user, or cancelled
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

// Prefixes what only this level knows: within("shard 7", error) -> "shard 7: ...".
inline tl::unexpected<Error> within(std::string_view where, Error error) {
    error.message = std::string(where) + ": " + error.message;
    return tl::unexpected<Error>(std::move(error));
}

}  // namespace sluice
