#include "engine/text/prompt_wording.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "io/file.h"
#include "io/path_access.h"
#include "io/text.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t file_bytes_max = uint64_t{1} << 20;
constexpr size_t files_max = 16;

std::vector<std::string> encoder_files(const fs::path& folder, const WordingPlace& place) {
    std::vector<std::string> names;
    std::error_code problem;
    for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
         entry.increment(problem)) {
        const std::string name = entry->path().filename();
        if (name.starts_with(place.first_letters) && name.ends_with(place.ending))
            names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::string list(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += cat(out.empty() ? "" : ", ", name);
    return out;
}

}  // namespace

std::string WordingPlace::pattern() const {
    return cat(folder, "/", first_letters, "*", ending);
}

std::string PromptWording::Constant::place() const {
    return cat(file, ": ", printable(value.name));
}

Result<PromptWording> PromptWording::load(const ModelFolder& folder, const WordingPlace& place) {
    const fs::path inside = folder.path / place.folder;
    if (auto closed = no_permission(inside, is_folder(inside) ? R_OK | X_OK : 0))
        return tl::unexpected(std::move(*closed));
    const auto names = encoder_files(inside, place);
    const std::string pattern = place.pattern();
    if (names.empty()) {
        return fail(Code::not_found,
                    cat(printable(folder.path.string()), ": no ", pattern,
                        ", which has the model's own texts for what was asked; fetch it: ",
                        fetch_command(folder, {}), " --include '", place.folder, "/*'"));
    }
    if (names.size() > files_max)
        return fail(Code::unsupported, cat(printable(inside.string()), ": ", names.size(),
                                           " files ", pattern, ", at most ", files_max));
    PromptWording wording(place);
    for (const std::string& name : names) {
        auto text = read_text(inside / name, file_bytes_max);
        if (!text) return tl::unexpected(std::move(text).error());
        auto added = wording.add(cat(place.folder, "/", printable(name)), *text);
        if (!added) return tl::unexpected(std::move(added).error());
    }
    return wording;
}

Result<void> PromptWording::add(const std::string& name, std::string_view python) {
    auto constants = read_python_constants(python);
    if (!constants) return within(name, std::move(constants).error());
    files_.push_back(name);
    for (PythonConstant& one : *constants) constants_.push_back({name, std::move(one)});
    return {};
}

template <class Fits>
Result<const PromptWording::Constant*> PromptWording::only(std::string_view wanted,
                                                           Fits fits) const {
    std::vector<const Constant*> found;
    std::vector<std::string> places;
    for (const Constant& one : constants_) {
        if (!fits(one)) continue;
        if (!found.empty() && found.back()->value.text == one.value.text) continue;
        found.push_back(&one);
        places.push_back(one.place());
    }
    if (found.empty()) return fail(Code::not_found, cat(list(files_), ": no ", wanted));
    if (found.size() > 1)
        return fail(Code::corrupt, cat("more than one ", wanted, ": ", list(places)));
    const Constant& one = *found.front();
    if (one.value.problem.empty()) return &one;
    return fail(Code::unsupported,
                cat(one.place(), " (line ", one.value.line, "): ", one.value.problem));
}

Result<std::string> PromptWording::text(std::string_view constant) const {
    auto found = only(cat("constant ", printable(constant)),
                      [&](const Constant& one) { return one.value.name == constant; });
    if (!found) return tl::unexpected(std::move(found).error());
    return (*found)->value.text;
}

bool PromptWording::has(std::string_view constant) const {
    return std::any_of(constants_.begin(), constants_.end(),
                       [&](const Constant& one) { return one.value.name == constant; });
}

std::string PromptWording::files() const {
    return list(files_);
}

template <class Fits>
Result<TextTemplate> PromptWording::named_or_only(std::string_view name, std::string_view wanted,
                                                  Fits fits) const {
    const auto has_name = [&](const Constant& one) { return one.value.name == name; };
    auto found = has(name) ? only(cat("constant ", name), has_name)
                           : only(cat("constant ", name, " or ", wanted),
                                  [&](const Constant& one) { return fits(one.value.text); });
    if (!found) return tl::unexpected(std::move(found).error());
    return TextTemplate::parse((*found)->place(), (*found)->value.text);
}

Result<TextTemplate> PromptWording::tool_block() const {
    const std::string wanted = cat("other constant that begins with '", place_->tools_begin, "'");
    return named_or_only(place_->tools, wanted, [&](const std::string& text) {
        return text.starts_with(place_->tools_begin);
    });
}

Result<TextTemplate> PromptWording::response_format() const {
    return named_or_only(place_->format, "other constant with a field {schema}",
                         [](const std::string& text) {
                             const auto parsed = TextTemplate::parse("", text);
                             return parsed && parsed->has("schema");
                         });
}

}  // namespace sluice
