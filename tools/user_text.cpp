#include "tools/user_text.h"

#include "io/file.h"

namespace sluice {

namespace {

constexpr uint64_t file_max = uint64_t{64} << 20;

}  // namespace

Error named_file_error(Error error) {
    if (error.code != Code::io) error.code = Code::usage;
    return error;
}

Result<std::string> read_user_file(std::string_view flag, const std::string& path) {
    auto text = read_text(path, file_max);
    if (!text) return within(flag, named_file_error(std::move(text).error()));
    return text;
}

}  // namespace sluice
