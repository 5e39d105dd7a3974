// Log lines on stderr, from any thread. Only log.cpp includes spdlog.
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
// Logs a warning only the first time that `key` is used in this process.
void warn_once(std::string_view key, std::string_view line);

}  // namespace sluice::log
