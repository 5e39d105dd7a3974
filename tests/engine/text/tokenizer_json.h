// A tokenizer.json made in memory: the 256 bytes as tokens 0..255, then what a test adds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/utf8.h"
#include "io/json.h"
#include "io/text.h"

namespace sluice::test {

inline std::string vocabulary_text(std::string_view bytes) {
    std::string out;
    for (char byte : bytes) append_utf8(out, byte_character(static_cast<uint8_t>(byte)));
    return out;
}

struct TokenizerJson {
    std::vector<std::string> words;                           // ids 256, 257, ... (bytes)
    std::vector<std::pair<std::string, std::string>> merges;  // bytes
    std::string added;  // members of the array added_tokens, as JSON
    std::string normalizer = "null";
    std::string pre_tokenizer =
        R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
    std::string decoder = R"({"type":"ByteLevel"})";
    std::string model = R"("type":"BPE")";  // members but vocab and merges
    std::string root;                       // further members, with a comma in front
    bool merge_strings = false;

    std::string text() const {
        std::string vocab, rules;
        auto token = [&](std::string_view bytes, int id) {
            vocab += cat(vocab.empty() ? "" : ",", json_quote(vocabulary_text(bytes)), ":", id);
        };
        for (int byte = 0; byte < 256; ++byte) token(std::string(1, static_cast<char>(byte)), byte);
        int id = 256;
        for (const std::string& word : words) token(word, id++);
        for (const auto& [left, right] : merges) {
            const std::string a = vocabulary_text(left), b = vocabulary_text(right);
            rules += rules.empty() ? "" : ",";
            rules += merge_strings ? json_quote(cat(a, " ", b))
                                   : cat("[", json_quote(a), ",", json_quote(b), "]");
        }
        return cat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)", added,
                   R"(],"normalizer":)", normalizer, R"(,"pre_tokenizer":)", pre_tokenizer,
                   R"(,"post_processor":null,"decoder":)", decoder, R"(,"model":{)", model,
                   R"(,"vocab":{)", vocab, R"(},"merges":[)", rules, "]}", root, "}");
    }
};

inline std::string added_token(int id, std::string_view content, bool normalized = false,
                               std::string_view flag = "") {
    auto value = [&](std::string_view name) { return name == flag ? "true" : "false"; };
    return cat(R"({"id":)", id, R"(,"content":)", json_quote(content), R"(,"single_word":)",
               value("single_word"), R"(,"lstrip":)", value("lstrip"), R"(,"rstrip":)",
               value("rstrip"), R"(,"normalized":)", normalized ? "true" : "false",
               R"(,"special":true})");
}

}  // namespace sluice::test
