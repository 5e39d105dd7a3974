// What --help prints, and tools/OPTIONS.md, from the tables of commands and options.
#pragma once

#include <string>

#include "tools/options/options.h"

namespace sluice {

enum class HelpPart { usual, advanced };

// Lines of at most 100 columns. A command with few options has no advanced ones: its help is whole.
std::string help_text(Command command, HelpPart part);

// Every option with its commands, as Markdown.
std::string options_markdown();

}  // namespace sluice
