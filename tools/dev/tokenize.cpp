// Token ids of texts, for comparison with another tokenizer:
//
//     tokenize TOKENIZER.json [--added] < texts > ids
//     tokenize TOKENIZER.json --map VOCAB DISTINCT > map
//
// Texts come as 4 bytes of length, little endian, then the bytes. One line of ids a text. --added
// reads added tokens in the text as such. --map prints the Engram map of a vocabulary, an id a
// line.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engram_hash.h"
#include "engine/tokenizer.h"

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

bool read_text(std::string& text) {
    unsigned char head[4];
    if (std::fread(head, 1, 4, stdin) != 4) return false;
    text.resize(head[0] | head[1] << 8 | head[2] << 16 | static_cast<uint32_t>(head[3]) << 24);
    return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: tokenize TOKENIZER.json [--added | --map VOCAB DISTINCT]\n");
        return 2;
    }
    const auto tokenizer = sluice::Tokenizer::load(argv[1]);
    if (!tokenizer) return report(tokenizer.error());
    const std::string_view mode = argc > 2 ? argv[2] : "";
    if (mode == "--map" && argc == 5) {
        sluice::ModelConfig config{};
        config.vocab = std::atoi(argv[3]);
        config.engram_compressed_vocab = std::atoi(argv[4]);
        const auto map = sluice::compressed_token_map(*tokenizer, config);
        if (!map) return report(map.error());
        print_ids(*map, '\n');
        return 0;
    }
    for (std::string text; read_text(text);) {
        print_ids(mode == "--added" ? tokenizer->encode_with_added(text) : tokenizer->encode(text),
                  ' ');
    }
    return 0;
}
