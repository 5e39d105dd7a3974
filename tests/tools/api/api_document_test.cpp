// tools/API.md says of every field what the code does with it.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
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

// Names of fields in the tables of the code: {"name", Use::used, ...
std::set<std::string> in_code() {
    std::set<std::string> out;
    for (const auto& entry :
         std::filesystem::directory_iterator(cat(models_folder, "/../../tools/api"))) {
        std::ifstream file(entry.path());
        std::string line;
        while (std::getline(file, line)) {
            const size_t begin = line.find("{\""), end = line.find("\", Use::");
            if (begin == std::string::npos || end == std::string::npos) continue;
            out.insert(line.substr(begin + 2, end - begin - 2));
        }
    }
    return out;
}

}  // namespace

TEST_CASE("no field of the code's tables is missing in the document") {
    std::set<std::string> mentioned;
    for (const auto& [section, fields] : documented()) {
        for (const auto& [field, use] : fields) mentioned.insert(field);
    }
    const auto fields = in_code();
    CHECK(fields.size() > 60);
    for (const std::string& field : fields) {
        CAPTURE(field);
        CHECK(mentioned.contains(field));
    }
}

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
