#include "engine/text/prompt_wording.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/model/deepseek/chat_parts.h"
#include "io/text.h"
#include "tests/support/messages.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::pair<std::string, std::string>>;

struct ModelWith {
    TempFolder folder;
    explicit ModelWith(const Files& files) {
        fs::create_directory(folder / "encoding");
        for (const auto& [name, text] : files) folder.write("encoding/" + name, text);
    }
    Result<PromptWording> load() const {
        return PromptWording::load({folder.path(), "", ""}, deepseek::chat_wording);
    }
    PromptWording good() const {
        auto wording = load();
        REQUIRE_MESSAGE(wording, (wording ? "" : wording.error().message));
        return *wording;
    }
};

std::string filled(const Result<TextTemplate>& text) {
    REQUIRE_MESSAGE(text, (text ? "" : text.error().message));
    const std::vector<TextTemplate::Field> fields{{"schema", "S"}, {"tool_schemas", "T"}};
    const auto segments = text->fill(fields);
    REQUIRE(segments);
    std::string out;
    for (const auto& segment : *segments) out += segment.text;
    return out;
}

template <class T>
std::string refusal(const Result<T>& result, Code code) {
    REQUIRE(!result);
    CHECK(result.error().code == code);
    CHECK(!mentions(result.error().message, "\n"));
    return result.error().message;
}

}  // namespace

TEST_CASE("wording: the texts of the test checkpoints") {
    for (const char* model : {"dsv41-tiny", "dsv41-rand-a"}) {
        const auto wording = PromptWording::load({fs::path(test::models_folder) / model, "", ""},
                                                 deepseek::chat_wording);
        REQUIRE(wording);
        CHECK(filled(wording->response_format()) ==
              "## Form of the answer\n\nOnly JSON of this form:\nS");
        CHECK(wording->tool_block()->has("thinking_end_token"));
        CHECK(*wording->text("tool_output_template") == "<tool_result>{content}</tool_result>");
    }
}

TEST_CASE("wording: a missing folder is told with the command that fetches it") {
    const TempFolder folder;
    const ModelFolder cached{folder.path(), "org/name", "main"};
    const std::string message =
        refusal(PromptWording::load(cached, deepseek::chat_wording), Code::not_found);
    says(message, {"no encoding/encoding*.py",
                   "hf download org/name --revision main --include 'encoding/*'"});
    const ModelFolder plain{folder.path(), "", ""};
    says(refusal(PromptWording::load(plain, deepseek::chat_wording), Code::not_found),
         {"hf download REPO --local-dir ", " --include 'encoding/*'"});
    // Other files in it are none.
    const ModelWith other(Files{{"test_encoding.py", "A = 'x'"}, {"encoding.txt", "x"}});
    CHECK(mentions(refusal(other.load(), Code::not_found), "encoding/encoding*.py"));
}

TEST_CASE("wording: by name, else the only text that fits") {
    CHECK(filled(ModelWith(
                     Files{{"encoding.py",
                            "OTHER = '## Tools b'\nTOOLS_TEMPLATE = '## Tools a {tool_schemas}'"}})
                     .good()
                     .tool_block()) == "## Tools a T");
    CHECK(filled(ModelWith(
                     Files{{"encoding_new.py", "BLOCK = '## Tools {tool_schemas} {{}}'\nX = 'y'"}})
                     .good()
                     .tool_block()) == "## Tools T {}");
    CHECK(filled(ModelWith(Files{{"encoding.py", "A = 'a'\nFORM = 'As {schema}'"}})
                     .good()
                     .response_format()) == "As S");
    // The same text twice is one; different ones are refused.
    const ModelWith twice(
        {{"encoding.py", "A = '## Tools a'"}, {"encoding_b.py", "B = '## Tools a'"}});
    CHECK(filled(twice.good().tool_block()) == "## Tools a");
    const ModelWith more(
        {{"encoding.py", "A = '## Tools a'"}, {"encoding_b.py", "B = '## Tools b'"}});
    says(refusal(more.good().tool_block(), Code::corrupt),
         {"more than one", "encoding/encoding.py: A", "encoding/encoding_b.py: B"});
    const ModelWith disagree(Files{{"encoding.py", "A = 'a'"}, {"encoding_b.py", "A = 'b'"}});
    says(refusal(disagree.good().text("A"), Code::corrupt), {"more than one constant A"});
    const ModelWith none(Files{{"encoding.py", "A = 'a'"}});
    says(refusal(none.good().tool_block(), Code::not_found),
         {"encoding/encoding.py: no constant TOOLS_TEMPLATE or other constant"});
    says(refusal(none.good().response_format(), Code::not_found), {"response_format_template"});
    says(refusal(none.good().text("B"), Code::not_found), {"no constant B"});
}

TEST_CASE("wording: hostile files are refused by name") {
    const ModelWith large(Files{{"encoding.py", std::string(size_t{2} << 20, '#')}});
    says(refusal(large.load(), Code::corrupt), {"encoding/encoding.py", "at most"});
    const ModelWith broken(Files{{"encoding.py", "A = '"}});
    says(refusal(broken.load(), Code::corrupt), {"encoding/encoding.py: line 1: a string"});
    const ModelWith escape(Files{{"encoding.py", "\nTOOLS_TEMPLATE = '## Tools \\N{BULLET}'"}});
    says(refusal(escape.good().tool_block(), Code::unsupported),
         {"encoding/encoding.py: TOOLS_TEMPLATE (line 2)", "\\N"});
    const ModelWith brace(Files{{"encoding.py", "TOOLS_TEMPLATE = 'a } b'"}});
    says(refusal(brace.good().tool_block(), Code::corrupt), {"TOOLS_TEMPLATE", "a single '}'"});
    const ModelWith pipe(Files{});
    REQUIRE(mkfifo((pipe.folder / "encoding/encoding.py").c_str(), 0600) == 0);
    CHECK(!pipe.load());
    const ModelWith folder(Files{});
    fs::create_directory(folder.folder / "encoding/encoding.py");
    CHECK(!folder.load());
    Files many;
    for (int i = 0; i < 17; ++i) many.emplace_back(cat("encoding", i, ".py"), "A = 'a'");
    says(refusal(ModelWith(many).load(), Code::unsupported), {"17 files", "at most 16"});
}

TEST_CASE("wording: nothing in the files is run") {
    const TempFolder mark;
    const std::string path = (mark / "ran").string();
    const ModelWith model(
        Files{{"encoding.py", cat("import os\nos.system(\"touch '", path,
                                  "'\")\nA = 'a'\nB = open('", path, "', 'w')")}});
    CHECK(*model.good().text("A") == "a");
    CHECK(!fs::exists(path));
}

TEST_CASE("wording: templates are read as str.format reads them") {
    const auto parse = [](std::string_view text) { return TextTemplate::parse("t", text); };
    CHECK(filled(parse("a {schema} b {{x}} {tool_schemas}{schema}")) == "a S b {x} TS");
    CHECK(filled(parse("")).empty());
    CHECK(filled(parse("}}{{")) == "}{");
    CHECK(filled(parse("{{{schema}}}")) == "{S}");
    for (const char* bad : {"{", "}", "a{b", "}{schema}", "{{}"})
        CHECK(mentions(refusal(parse(bad), Code::corrupt), "t: a single"));
    for (const char* bad : {"{}", "{0}", "{a.b}", "{a[0]}", "{a!r}", "{a:>3}", "{a b}", "{a:{b}}"})
        CHECK(mentions(refusal(parse(bad), Code::unsupported), "t: the field {"));
    const std::vector<TextTemplate::Field> fields{{"a", "A", true}, {"b", "B", false, true}};
    says(refusal(parse("{b} {c}")->fill(fields), Code::unsupported), {"t: unknown field {c}"});
    says(refusal(parse("{a}")->fill(fields), Code::unsupported), {"t: no field {b}"});
    // Wording and given text are kept apart, each as long as it goes.
    const auto segments = parse("x{a}y{b}{b}z")->fill(fields);
    REQUIRE(segments);
    REQUIRE(segments->size() == 3);
    CHECK((*segments)[0].text == "xAy");
    CHECK((*segments)[0].wording);
    CHECK((*segments)[1].text == "BB");
    CHECK(!(*segments)[1].wording);
    CHECK((*segments)[2].text == "z");
}
