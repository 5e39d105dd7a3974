// Which mounted file system a path is on, for messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Mount {
    std::string point;
    std::string type;    // "ext4"
    std::string source;  // "/dev/nvme0n1p2", "tmpfs"
};

// Fields that cannot be determined are "?".
Mount mount_of(const std::filesystem::path& path);

// The same from the text of /proc/self/mountinfo, for an absolute path without links.
Mount mount_of(const std::filesystem::path& path, std::string_view mountinfo);

// Every mount, in mounting order.
std::vector<Mount> all_mounts();

// Name of the block device with this number (st_dev of a file), such as "nvme0n1p2"; empty if there
// is none (tmpfs, overlay).
std::string drive_name(uint64_t device);

}  // namespace sluice
