// Which mounted file system a path is on, for messages.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sluice {

struct Mount {
    std::string point;
    std::string type;  // "ext4"
};

// "?" for what cannot be found out.
Mount mount_of(const std::filesystem::path& path);

// The same from the text of /proc/self/mountinfo, for an absolute path without links.
Mount mount_of(const std::filesystem::path& path, std::string_view mountinfo);

}  // namespace sluice
