#include "engine/device_check.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "io/checksum.h"
#include "io/file.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr uint64_t memory = 1ull << 30;
constexpr uint64_t binary_max = 1ull << 30;

// Changes with the card, its driver and this executable.
Result<std::string> identity(int device) {
    auto card = cuda_identity(device);
    if (!card) return card;
    auto binary = read_text("/proc/self/exe", binary_max);
    if (!binary) return within("this executable", binary.error());
    return cat(*card, ", build ", checksum_text(checksum(binary->data(), binary->size())));
}

std::filesystem::path stamp_of(const std::string& identity) {
    const std::string folder = cache_folder();
    if (folder.empty()) return {};
    const std::string name = checksum_text(checksum(identity.data(), identity.size()));
    return std::filesystem::path(folder) / cat("selftest-", name);
}

// The stamp holds the whole identity: a name that collides, or a file cut short, proves nothing.
bool remembered(const std::filesystem::path& stamp, const std::string& identity) {
    if (stamp.empty()) return false;
    auto text = read_text(stamp, 4096);
    return text && *text == identity + "\n";
}

bool remember(const std::filesystem::path& stamp, const std::string& identity) {
    if (stamp.empty()) return false;
    std::error_code error;
    std::filesystem::create_directories(stamp.parent_path(), error);
    const std::filesystem::path fresh = stamp.string() + ".new";
    {
        std::ofstream out(fresh, std::ios::trunc | std::ios::binary);
        out << identity << "\n";
        if (!out.flush()) return false;
    }
    std::filesystem::rename(fresh, stamp, error);
    return !error;
}

}  // namespace

std::string cache_folder() {
    const char* xdg = std::getenv("XDG_CACHE_HOME");
    if (xdg && *xdg == '/') return cat(xdg, "/sluice");
    const char* home = std::getenv("HOME");
    return home && *home == '/' ? cat(home, "/.cache/sluice") : std::string();
}

Result<DeviceCheck> check_device(const DeviceCheckOptions& options) {
    auto id = identity(options.device);
    if (!id) return tl::unexpected(id.error());
    const std::filesystem::path stamp = stamp_of(*id);
    DeviceCheck check;
    if (!options.again && remembered(stamp, *id)) {
        check.remembered = true;
        check.note = "self-test of the kernels: passed before on this card, driver and build";
        return check;
    }
    auto backend = make_cuda_backend({.device = options.device, .vram_budget = memory});
    if (!backend) return within("self-test of the kernels", backend.error());
    auto rows = selftest(**backend, options.test);
    if (!rows) return within("self-test of the kernels", rows.error());
    check.rows = std::move(*rows);
    if (!passed(check.rows)) {
        std::string wrong;
        for (const SelftestRow& row : check.rows) {
            if (!row.pass) wrong += cat(wrong.empty() ? "" : "; ", row.operation, " ", row.why);
        }
        return fail(Code::device,
                    cat((*backend)->name(), " computes wrong values: ", wrong,
                        " (sluice selftest shows all; --device cpu runs without it)"));
    }
    const bool kept = remember(stamp, *id);
    check.note = cat("self-test of the kernels: ", check.rows.size(), " operations passed",
                     kept ? "" : "; the result cannot be remembered in the cache folder");
    return check;
}

}  // namespace sluice
