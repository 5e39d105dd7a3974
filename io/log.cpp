// spdlog and fmt are used as headers: Debian ships their libraries only as shared objects, and the
// executable must run where they are not installed.
#ifndef SPDLOG_FMT_EXTERNAL
#define SPDLOG_FMT_EXTERNAL
#endif
#define FMT_HEADER_ONLY
#include "io/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace sluice::log {

namespace {

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
        case Level::off:
            return spdlog::level::off;
        case Level::error:
            return spdlog::level::err;
        case Level::warn:
            return spdlog::level::warn;
        case Level::info:
            return spdlog::level::info;
        case Level::debug:
            return spdlog::level::debug;
        case Level::trace:
            return spdlog::level::trace;
    }
    return spdlog::level::warn;
}

Level from_spdlog(spdlog::level::level_enum level) {
    switch (level) {
        case spdlog::level::trace:
            return Level::trace;
        case spdlog::level::debug:
            return Level::debug;
        case spdlog::level::info:
            return Level::info;
        case spdlog::level::warn:
            return Level::warn;
        case spdlog::level::off:
            return Level::off;
        default:
            return Level::error;
    }
}

// Never destroyed: threads may still log while the process ends.
spdlog::logger& logger() {
    static spdlog::logger* const instance = [] {
        auto* made =
            new spdlog::logger("sluice", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        made->set_pattern("sluice: %l: %v");
        made->set_level(spdlog::level::warn);
        made->flush_on(spdlog::level::trace);
        return made;
    }();
    return *instance;
}

void write(spdlog::level::level_enum level, std::string_view line) {
    logger().log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void set_level(Level level) {
    logger().set_level(to_spdlog(level));
}

Level level() {
    return from_spdlog(logger().level());
}

void error(std::string_view line) {
    write(spdlog::level::err, line);
}

void warn(std::string_view line) {
    write(spdlog::level::warn, line);
}

void info(std::string_view line) {
    write(spdlog::level::info, line);
}

void debug(std::string_view line) {
    write(spdlog::level::debug, line);
}

void warn_once(std::string_view key, std::string_view line) {
    static std::mutex mutex;
    static auto* const said = new std::set<std::string, std::less<>>;
    {
        const std::lock_guard lock(mutex);
        if (!said->emplace(key).second) return;
    }
    warn(line);
}

}  // namespace sluice::log
