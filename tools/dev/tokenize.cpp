// Prints the token ids of texts, to compare them with another tokenizer:
//
//     tokenize TOKENIZER.json [--added] < texts > ids
//     tokenize TOKENIZER.json --map VOCAB DISTINCT > map
//     tokenize TOKENIZER.json --unassigned > code points
//
// Each text on stdin is its length (4 bytes, little endian), then its bytes. Prints one line of ids
// per text. --added recognises added tokens in the text. --map prints the Engram map of a
// vocabulary, one id per line. --unassigned prints the code points that the pattern library has no
// character for.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/engram_hash.h"
#include "engine/text/split_regex.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

namespace {

int report(const sluice::Error& error) {
    std::fprintf(stderr, "tokenize: %s\n", error.message.c_str());
    return 1;
}

void print_ids(const std::vector<int32_t>& ids, char between) {
    std::string line;
    for (int32_t id : ids) {
        if (!line.empty()) line += between;
        line += std::to_string(id);
    }
    std::puts(line.c_str());
}

int print_unassigned() {
    const auto regex = sluice::SplitRegex::compile("\\p{Cn}");
    if (!regex) return report(regex.error());
    sluice::SplitRegex::Scratch scratch;
    std::vector<std::string_view> pieces;
    for (char32_t c = 0; c <= 0x10ffff; ++c) {
        if (c >= 0xd800 && c < 0xe000) continue;
        std::string text = "a";
        sluice::append_utf8(text, c);
        pieces.clear();
        regex->split(text, scratch, pieces);
        if (pieces.size() == 2) std::printf("%u\n", static_cast<unsigned>(c));
    }
    return 0;
}

int print_map(const sluice::Tokenizer& tokenizer, int vocab, int distinct) {
    sluice::ModelConfig config{};
    config.vocab = vocab;
    config.engram_compressed_vocab = distinct;
    const auto map = sluice::compressed_token_map(tokenizer, config);
    if (!map) return report(map.error());
    print_ids(*map, '\n');
    return 0;
}

bool read_text(std::string& text) {
    unsigned char head[4];
    if (std::fread(head, 1, 4, stdin) != 4) return false;
    text.resize(head[0] | head[1] << 8 | head[2] << 16 | static_cast<uint32_t>(head[3]) << 24);
    return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(
            stderr,
            "usage: tokenize TOKENIZER.json [--added | --map VOCAB DISTINCT | --unassigned]\n");
        return 2;
    }
    const auto tokenizer = sluice::Tokenizer::load(argv[1]);
    if (!tokenizer) return report(tokenizer.error());
    const std::string_view mode = argc > 2 ? argv[2] : "";
    if (mode == "--map" && argc == 5)
        return print_map(*tokenizer, std::atoi(argv[3]), std::atoi(argv[4]));
    if (mode == "--unassigned") return print_unassigned();
    for (std::string text; read_text(text);) {
        print_ids(mode == "--added" ? tokenizer->encode_with_added(text) : tokenizer->encode(text),
                  ' ');
    }
    return 0;
}
