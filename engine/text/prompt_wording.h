// The fixed English texts that a model's encoder puts into a prompt: the tool block, the response
// format, effort texts. They belong to the model and change between its releases, so they are read
// from the encoder's Python files in its folder. Nothing in these files is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/python_constants.h"
#include "engine/text/text_template.h"
#include "io/checkpoint/model_folder.h"
#include "io/error.h"

namespace sluice {

// Where the texts are, and by what they are known.
struct WordingPlace {
    std::string_view folder, first_letters, ending;  // the files FOLDER/FIRST_LETTERS*ENDING
    std::string_view tools, tools_begin;  // constant of the tool block; what its text begins with
    std::string_view format;              // constant of the response format

    std::string pattern() const;  // "encoding/encoding*.py"
};

// Immutable once read; any thread. Every error names the file, and the constant if there is one.
class PromptWording {
 public:
    // Without texts. `place`, which outlives it, is the model's (ChatFormat).
    explicit PromptWording(const WordingPlace& place) : place_(&place) {}

    // Reads all of the place's files, of at most 1 MiB each. not_found, with the command that
    // fetches them: there is none. corrupt: one of them is damaged (python_constants.h).
    static Result<PromptWording> load(const ModelFolder& folder, const WordingPlace& place);

    // Adds the constants of a file that is called `name`.
    Result<void> add(const std::string& name, std::string_view python);

    // The text of a constant. not_found: there is none. corrupt: files disagree about it.
    // unsupported: it has an escape that cannot be read.
    Result<std::string> text(std::string_view constant) const;
    bool has(std::string_view constant) const;
    std::string files() const;  // their names, for messages

    // The constant place.tools; without it, the only constant that begins with place.tools_begin.
    // Fields: {tool_schemas}, {dsml_token}, {thinking_start_token}, {thinking_end_token}.
    Result<TextTemplate> tool_block() const;
    // The constant place.format; without it, the only constant with a field {schema}.
    Result<TextTemplate> response_format() const;

 private:
    struct Constant {
        std::string file;
        PythonConstant value;
        std::string place() const;  // "encoding/encoding.py: NAME"
    };
    // What fits, if exactly one text does; `wanted` says in words what was looked for.
    template <class Fits>
    Result<const Constant*> only(std::string_view wanted, Fits fits) const;
    template <class Fits>
    Result<TextTemplate> named_or_only(std::string_view name, std::string_view wanted,
                                       Fits fits) const;

    const WordingPlace* place_;
    std::vector<std::string> files_;
    std::vector<Constant> constants_;  // in the order of the files
};

}  // namespace sluice
