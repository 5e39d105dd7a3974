#include "cache/budget.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "io/text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    return file ? text.str() : std::string();
}

std::optional<uint64_t> number_at(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc()) return std::nullopt;  // "max", or no file
    return value;
}

// The number after `name` at the beginning of a line: "MemAvailable:  123 kB", "inactive_file 5".
std::optional<uint64_t> field(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.substr(0, name.size()) == name) return number_at(line.substr(name.size()));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return std::nullopt;
}

struct CgroupNames {
    const char* limits[2];
    const char* usage;
    const char* reclaimable;  // in memory.stat
};
constexpr CgroupNames version_1 = {{"memory.limit_in_bytes", "memory.soft_limit_in_bytes"},
                                   "memory.usage_in_bytes",
                                   "total_inactive_file "};
constexpr CgroupNames version_2 = {
    {"memory.max", "memory.high"}, "memory.current", "inactive_file "};

// What one cgroup still allows; UINT64_MAX without a limit.
uint64_t left_in_group(const fs::path& folder, const CgroupNames& names) {
    uint64_t limit = UINT64_MAX;
    for (const char* name : names.limits) {
        limit = std::min(limit, number_at(text_of(folder / name)).value_or(UINT64_MAX));
    }
    if (limit == UINT64_MAX) return limit;
    const uint64_t usage = number_at(text_of(folder / names.usage)).value_or(0);
    const uint64_t cache = field(text_of(folder / "memory.stat"), names.reclaimable).value_or(0);
    const uint64_t fixed = usage - std::min(usage, cache);
    return limit - std::min(limit, fixed);
}

// The smallest of the group and its parents. In a container the path may be the host's and not
// exist here; then the first parent that exists is the container's own group.
uint64_t left_in_tree(const fs::path& mount, std::string_view group, const CgroupNames& names) {
    fs::path path = fs::path("/" + std::string(group)).lexically_normal();
    uint64_t left = UINT64_MAX;
    for (;;) {
        left = std::min(left, left_in_group(mount / path.relative_path(), names));
        if (!path.has_relative_path()) return left;
        path = path.parent_path();
    }
}

uint64_t left_in_cgroups(const fs::path& root) {
    const fs::path mounts = root / "sys/fs/cgroup";
    std::istringstream lines(text_of(root / "proc/self/cgroup"));
    uint64_t left = UINT64_MAX;
    for (std::string line; std::getline(lines, line);) {  // "hierarchy:controllers:path"
        const size_t first = line.find(':');
        const size_t second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const std::string group = line.substr(second + 1);
        if (controllers == ",,") {
            left = std::min(left, left_in_tree(mounts, group, version_2));
            left = std::min(left, left_in_tree(mounts / "unified", group, version_2));
        } else if (controllers.find(",memory,") != controllers.npos) {
            left = std::min(left, left_in_tree(mounts / "memory", group, version_1));
        }
    }
    return left;
}

}  // namespace

Result<void> Budget::take(std::string_view what, uint64_t bytes) {
    if (bytes > left()) {
        std::string taken;
        for (const BudgetLine& line : lines_) {
            taken += cat(taken.empty() ? "" : ", ", line.what, " ", size_text(line.bytes));
        }
        return fail(Code::no_memory,
                    cat(what, ": ", size_text(bytes), " of ", device_, " needed, ",
                        size_text(bytes - left()), " more than the budget of ", size_text(limit_),
                        " has left (taken: ", taken.empty() ? "nothing" : taken, ")"));
    }
    used_ += bytes;
    lines_.push_back({std::string(what), device_, bytes});
    return {};
}

std::string Budget::table() const {
    size_t width = 4;
    for (const BudgetLine& line : lines_) width = std::max(width, line.what.size());
    std::string table;
    const auto row = [&](std::string_view what, uint64_t bytes, std::string_view rest) {
        const std::string size = size_text(bytes);
        table += cat(device_, "  ", what, std::string(width - what.size() + 2, ' '),
                     std::string(size.size() < 10 ? 10 - size.size() : 0, ' '), size, rest, "\n");
    };
    for (const BudgetLine& line : lines_) row(line.what, line.bytes, "");
    row("sum", used_, cat(" of ", size_text(limit_)));
    return table;
}

uint64_t available_ram(const std::filesystem::path& root) {
    const std::string meminfo = text_of(root / "proc/meminfo");
    const auto available = field(meminfo, "MemAvailable:");
    const uint64_t free = available.value_or(field(meminfo, "MemFree:").value_or(0)) * 1024;
    return std::min(free, left_in_cgroups(root));
}

uint64_t default_ram_budget(const std::filesystem::path& root) {
    const uint64_t available = available_ram(root);
    const uint64_t headroom = std::max(uint64_t{1} << 30, available / 10);
    return available - std::min(headroom, available / 2);
}

Result<void> check_ram(uint64_t budget, uint64_t available) {
    if (budget <= available) return {};
    return fail(Code::no_memory,
                cat("--ram ", size_text(budget), " is more than the ", size_text(available),
                    " available, so the machine would swap; give less, or omit --ram"));
}

Result<uint32_t> plan_cache_slots(const SlotRequest& request) {
    const auto experts =
        static_cast<uint64_t>(request.layers) * static_cast<uint64_t>(request.experts);
    const auto needed = static_cast<uint64_t>(request.layers) *
                        static_cast<uint64_t>(std::min(request.top_k, request.experts));
    if (request.left == 0 || experts == 0 || request.slot_bytes == 0) return 0;
    const uint64_t slots = std::min(request.left / request.slot_bytes, experts);
    if (slots < needed) {
        return fail(
            Code::no_memory,
            cat("expert cache: ", size_text(request.left), " hold ", slots, " experts of ",
                size_text(request.slot_bytes), ", but one token uses ", needed, " (",
                request.layers, " layers x ", needed / static_cast<uint64_t>(request.layers),
                "), and a smaller cache evicts experts right before they are needed; give it ",
                size_text(needed * request.slot_bytes), " (", needed * request.slot_bytes,
                " bytes) or turn it off"));
    }
    return static_cast<uint32_t>(slots);
}

}  // namespace sluice
