// tools/API.md says of every field what the code does with it.
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/paths.h"
#include "tests/tools/api/api_scene.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// "used", "ignored" or "refused" by field, for each section of the document.
std::map<std::string, std::map<std::string, std::string>> documented() {
    std::map<std::string, std::map<std::string, std::string>> out;
    std::ifstream file(cat(models_folder, "/../../tools/API.md"));
    std::string line, section;
    while (std::getline(file, line)) {
        if (line.starts_with("## ")) section = line.substr(3);
        std::istringstream cells(line);
        std::string before, names, use;
        std::getline(cells, before, '|');
        std::getline(cells, names, '|');
        std::getline(cells, use, '|');
        if (use != " used " && use != " ignored " && use != " refused ") continue;
        for (size_t at = names.find('`'); at != std::string::npos; at = names.find('`', at + 1)) {
            const size_t end = names.find('`', at + 1);
            out[section][names.substr(at + 1, end - at - 1)] = use.substr(1, use.size() - 2);
            at = end;
        }
    }
    return out;
}

// No field that is read takes this.
constexpr const char* nonsense = "[[{}]]";

void check_fields(std::string_view path, const std::map<std::string, std::string>& fields) {
    for (const auto& [field, use] : fields) {
        CAPTURE(path);
        CAPTURE(field);
        const std::string member = cat('"', field, "\":", nonsense);
        const bool needed = least(path).find(cat('"', field, "\":")) != std::string_view::npos;
        const auto request = needed ? dialect(path).parse(cat("{", member, "}"), defaults())
                                    : parse_with(path, member);
        if (use == "ignored") {
            REQUIRE(request);
            CHECK(request->ignored == field);
        } else {
            REQUIRE_FALSE(request);
            CHECK(request.error().message.starts_with(field));
        }
    }
}

}  // namespace

TEST_CASE("the document's tables say what becomes of each field") {
    auto sections = documented();
    REQUIRE(sections.size() == 5);
    const auto& shared = sections["Fields of several APIs"];
    CHECK(shared.size() > 20);
    for (const auto path : {chat, completions, responses}) {
        CHECK(sections[cat("`", path, "`")].size() > 4);
        check_fields(path, sections[cat("`", path, "`")]);
        check_fields(path, shared);
    }
    check_fields(anthropic, sections[cat("`", anthropic, "`")]);
}
