// libFuzzer target: any bytes as the model's encoding.py. Start with the folders encoding of
// tests/models.
// tests/dev/fuzz.sh builds and runs it.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "engine/text/prompt_wording.h"
#include "engine/text/utf8.h"

using namespace sluice;

namespace {

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

template <class T>
bool check_error(const Result<T>& result) {
    if (result) return true;
    const std::string& message = result.error().message;
    require(!message.empty(), "an error says something");
    require(message.find_first_of("\n\x1b") == std::string::npos, "an error is one line");
    return false;
}

void check_template(const Result<TextTemplate>& text) {
    if (!check_error(text)) return;
    const std::vector<TextTemplate::Field> fields{{"schema", "S", true},
                                                  {"tool_schemas", "T", false, true}};
    const auto segments = text->fill(fields);
    if (!check_error(segments)) return;
    for (size_t i = 0; i < segments->size(); ++i) {
        require(!(*segments)[i].text.empty(), "no empty segment");
        require(i == 0 || (*segments)[i].wording != (*segments)[i - 1].wording, "segments differ");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto constants = read_python_constants(source);
    PromptWording wording(deepseek::chat_wording);
    const auto added = wording.add("encoding/encoding.py", source);
    require(constants.has_value() == added.has_value(), "both read it");
    check_error(added);
    if (!check_error(constants)) return 0;
    std::set<std::string> names;
    for (const PythonConstant& one : *constants) {
        require(names.insert(one.name).second, "a name comes once");
        require(!one.name.empty() && one.line >= 1, "a constant has a name and a line");
        require(utf8_prefix(one.text) == one.text.size(), "a text is UTF-8");
        require(check_error(wording.text(one.name)) == one.problem.empty(), "problems are errors");
    }
    check_template(wording.tool_block());
    check_template(wording.response_format());
    return 0;
}
