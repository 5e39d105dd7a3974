#include "engine/text/tokenizer.h"

#include <utility>

#include "engine/text/tokenizer_impl.h"

namespace sluice {

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

void Tokenizer::Impl::encode(std::string_view text, std::vector<int32_t>& ids) const {
    std::vector<std::string_view> pieces;
    pretokenizer.split(text, pieces);
    Bpe::Scratch scratch;
    for (std::string_view piece : pieces) {
        if (!whole_pieces.empty()) {
            const auto whole = whole_pieces.find(std::string(piece));
            if (whole != whole_pieces.end()) {
                ids.push_back(whole->second);
                continue;
            }
        }
        bpe.encode(piece, scratch, ids);
    }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
    std::vector<int32_t> ids;
    impl_->encode(text, ids);
    return ids;
}

namespace {

// Calls `found` for each match of `finder` and `gap` for the text between matches.
template <class Gap, class Found>
void walk(const AddedTokenFinder& finder, std::string_view text, Gap gap, Found found) {
    for (size_t done = 0; done < text.size();) {
        const AddedTokenFinder::Match match = finder.find(text, done);
        if (match.begin > done) gap(text.substr(done, match.begin - done));
        if (match.id >= 0) found(text.substr(match.begin, match.bytes), match.id);
        done = match.begin + match.bytes;
    }
}

}  // namespace

std::vector<Tokenizer::Stretch> Tokenizer::split_at_added(std::string_view text) const {
    std::vector<Stretch> out;
    auto token = [&](std::string_view part, int32_t id) { out.push_back({part, id}); };
    auto plain = [&](std::string_view part) { out.push_back({part, -1}); };
    auto second = [&](std::string_view part) { walk(impl_->second, part, plain, token); };
    walk(impl_->first, text, second, token);
    return out;
}

std::vector<int32_t> Tokenizer::encode_with_added(std::string_view text) const {
    std::vector<int32_t> ids;
    for (const Stretch& stretch : split_at_added(text)) {
        if (stretch.id >= 0)
            ids.push_back(stretch.id);
        else
            impl_->encode(stretch.text, ids);
    }
    return ids;
}

std::optional<int32_t> Tokenizer::id(std::string_view added_token) const {
    const auto found = impl_->added.find(std::string(added_token));
    if (found == impl_->added.end()) return std::nullopt;
    return found->second;
}

std::string_view Tokenizer::bytes(int32_t id) const {
    if (id < 0 || id >= size()) return {};
    return impl_->tokens[static_cast<size_t>(id)].bytes;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
    std::string out;
    for (int32_t id : ids) out += bytes(id);
    return out;
}

std::string_view Tokenizer::vocabulary_string(int32_t id) const {
    if (id < 0 || id >= size()) return {};
    return impl_->tokens[static_cast<size_t>(id)].text;
}

bool Tokenizer::is_added(int32_t id) const {
    return id >= 0 && id < size() && impl_->tokens[static_cast<size_t>(id)].added;
}

int32_t Tokenizer::size() const {
    return static_cast<int32_t>(impl_->tokens.size());
}

const TokenIndex& Tokenizer::index() const {
    std::call_once(impl_->index_made, [this] {
        std::vector<TokenTrie::Entry> entries;
        for (size_t id = 0; id < impl_->tokens.size(); ++id) {
            const Impl::Token& token = impl_->tokens[id];
            if (token.present && !token.added && !token.bytes.empty())
                entries.push_back({token.bytes, static_cast<int32_t>(id)});
        }
        impl_->index = std::make_unique<const TokenIndex>(impl_->tokens.size(), entries);
    });
    return *impl_->index;
}

}  // namespace sluice
