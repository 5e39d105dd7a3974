// The fixed English texts that a model's encoder puts into a prompt: the tool block, the response
// format, effort texts. They belong to the model and change between its releases, so they are read
// from encoding/encoding*.py in its folder. Nothing in these files is run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/text/python_constants.h"
#include "engine/text/text_template.h"
#include "io/checkpoint/model_folder.h"
#include "io/error.h"

namespace sluice {

// Immutable once read; any thread. Every error names the file, and the constant if there is one.
class PromptWording {
 public:
    // Reads all of these files, of at most 1 MiB each. not_found, with the command that fetches
    // them: there is none. corrupt: one of them is damaged (python_constants.h).
    static Result<PromptWording> load(const ModelFolder& folder);

    // Adds the constants of a file that is called `name`.
    Result<void> add(const std::string& name, std::string_view python);

    // The text of a constant. not_found: there is none. corrupt: files disagree about it.
    // unsupported: it has an escape that cannot be read.
    Result<std::string> text(std::string_view constant) const;
    bool has(std::string_view constant) const;
    std::string files() const;  // their names, for messages

    // The constant TOOLS_TEMPLATE; without it, the only constant that begins with "## Tools".
    // Fields: {tool_schemas}, {dsml_token}, {thinking_start_token}, {thinking_end_token}.
    Result<TextTemplate> tool_block() const;
    // The constant response_format_template; without it, the only constant with a field {schema}.
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
    Result<TextTemplate> named_or_only(std::string_view name, std::string_view wanted,
                                       bool (*fits)(const std::string& text)) const;

    std::vector<std::string> files_;
    std::vector<Constant> constants_;  // in the order of the files
};

}  // namespace sluice
