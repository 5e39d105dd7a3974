// Log lines on stderr. log.cpp is the only file that sees spdlog. Any thread.
#pragma once

#include <string_view>

namespace sluice::log {

enum class Level { off, error, warn, info, debug, trace };

void set_level(Level level);  // default warn
Level level();
void error(std::string_view line);
void warn(std::string_view line);
void info(std::string_view line);
void debug(std::string_view line);
// A warning that is worth saying once in a process: `key` decides what "again" means.
void warn_once(std::string_view key, std::string_view line);

}  // namespace sluice::log
