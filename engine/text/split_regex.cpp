#include "engine/text/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "engine/text/split_pattern.h"
#include "io/log.h"
#include "io/text.h"

namespace sluice {
namespace {

template <class T, void (*Free)(T*)>
struct Deleter {
    void operator()(T* object) const { Free(object); }
};
template <class T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Deleter<T, Free>>;

constexpr size_t jit_stack_start = 32u << 10, jit_stack_max = 16u << 20;

}  // namespace

struct SplitRegex::Impl {
    Owned<pcre2_code, pcre2_code_free> code;
    bool jit = false;
    std::string pattern;
};

struct SplitRegex::Scratch::Impl {
    Owned<pcre2_match_data, pcre2_match_data_free> match;
    Owned<pcre2_jit_stack, pcre2_jit_stack_free> stack;
    Owned<pcre2_match_context, pcre2_match_context_free> context;
};

SplitRegex::Scratch::Scratch() : impl_(std::make_unique<Impl>()) {
    impl_->match.reset(pcre2_match_data_create(1, nullptr));
    impl_->stack.reset(pcre2_jit_stack_create(jit_stack_start, jit_stack_max, nullptr));
    impl_->context.reset(pcre2_match_context_create(nullptr));
    if (impl_->context && impl_->stack)
        pcre2_jit_stack_assign(impl_->context.get(), nullptr, impl_->stack.get());
}
SplitRegex::Scratch::~Scratch() = default;

SplitRegex::SplitRegex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SplitRegex::SplitRegex(SplitRegex&&) noexcept = default;
SplitRegex& SplitRegex::operator=(SplitRegex&&) noexcept = default;
SplitRegex::~SplitRegex() = default;

Result<SplitRegex> SplitRegex::compile(std::string_view pattern) {
    auto translated = translate_split_pattern(pattern);
    if (!translated) return tl::unexpected(std::move(translated).error());
    int code = 0;
    PCRE2_SIZE at = 0;
    auto impl = std::make_unique<Impl>();
    impl->pattern = printable(pattern);
    impl->code.reset(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr));
    if (!impl->code) {
        char text[256] = "";
        pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
        return fail(Code::unsupported, cat("split pattern '", impl->pattern, "': ", text));
    }
    uint32_t empty = 0;
    pcre2_pattern_info(impl->code.get(), PCRE2_INFO_MATCHEMPTY, &empty);
    if (empty)
        return fail(Code::unsupported,
                    cat("split pattern '", impl->pattern, "' can match an empty text"));
    // Without JIT (where executable pages are not allowed) matching is slower, with the same
    // result.
    impl->jit = pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE) == 0;
    return SplitRegex(std::move(impl));
}

void SplitRegex::split(std::string_view text, Scratch& scratch,
                       std::vector<std::string_view>& pieces) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    pcre2_match_data* match = scratch.impl_->match.get();
    pcre2_match_context* context = scratch.impl_->context.get();
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    size_t done = 0;
    while (done < text.size()) {
        int rc = PCRE2_ERROR_JIT_STACKLIMIT;
        if (impl_->jit)
            rc = pcre2_match(impl_->code.get(), subject, text.size(), done, PCRE2_NO_UTF_CHECK,
                             match, context);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(impl_->code.get(), subject, text.size(), done,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, context);
        if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
            log::warn_once(impl_->pattern, cat("split pattern '", impl_->pattern,
                                               "' failed on a text of ", text.size(), " bytes"));
        if (rc < 0) break;
        if (bounds[0] > done) pieces.push_back(text.substr(done, bounds[0] - done));
        pieces.push_back(text.substr(bounds[0], bounds[1] - bounds[0]));
        done = bounds[1];
    }
    if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace sluice
