#include "engine/load/tokenizer_check.h"

#include <string_view>

#include "io/text.h"

namespace sluice {

namespace {

Result<void> check_id(const Tokenizer& tokenizer, std::string_view name, std::string_view field,
                      int32_t configured) {
    const auto id = tokenizer.id(name);
    if (!id || *id == configured) return {};
    return fail(Code::unsupported, cat(field, " is ", configured, ", but tokenizer.json has '",
                                       name, "' as ", *id, "; the two do not belong together"));
}

}  // namespace

Result<void> check_tokenizer(const Tokenizer& tokenizer, const ChatTokens& tokens,
                             const ModelConfig& config) {
    if (tokenizer.size() > config.vocab) {
        return fail(Code::corrupt,
                    cat("vocab_size is ", config.vocab, ", but tokenizer.json has token id ",
                        tokenizer.size() - 1, "; the two do not belong together"));
    }
    if (auto ok = check_id(tokenizer, tokens.begin, "bos_token_id", config.bos); !ok) return ok;
    return check_id(tokenizer, tokens.end, "eos_token_id", config.eos);
}

}  // namespace sluice
