// Source of kernels/backend.h: what this CPU can run, and how many of its cores this process may
// use.
#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "kernels/backend.h"

namespace sluice {
namespace {

// CPUs in the affinity mask, however many the machine has.
int affinity_cpus() {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
        cpu_set_t* set = CPU_ALLOC(cpus);
        if (!set) break;
        size_t size = CPU_ALLOC_SIZE(cpus);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)));
}

// CPUs that the quota of one cgroup allows, rounded up; 0 without a quota. v2: "max 100000" or
// "150000 100000" in cpu.max; v1: two files.
int quota_of(const std::string& folder) {
    double quota = 0, period = 0;
    std::ifstream v2(folder + "/cpu.max");
    if (v2) {
        v2 >> quota >> period;
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    if (!(quota > 0) || !(period > 0)) return 0;
    return std::max(1, int(std::min(1e6, (quota + period - 1) / period)));
}

// The tightest quota of this process's cgroup and the groups above it.
int quota_cpus() {
    int least = 0;
    auto consider = [&](const std::string& folder) {
        int cpus = quota_of(folder);
        if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    };
    std::ifstream list("/proc/self/cgroup");
    for (std::string line; std::getline(list, line);) {
        size_t first = line.find(':');
        size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        std::string controllers = line.substr(first + 1, second - first - 1);
        bool v1_cpu = ("," + controllers + ",").find(",cpu,") != std::string::npos;
        if (!controllers.empty() && !v1_cpu) continue;
        std::string root = v1_cpu ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
        std::string path = line.substr(second + 1);
        while (!path.empty()) {
            consider(root + path);
            path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
        }
        consider(root);
    }
    return least;
}

// Its registers are those of AVX. Not every compiler's __builtin_cpu_supports() knows it.
bool has_f16c() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned f16c = 1u << 29;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & f16c) != 0;
}

// Eight-bit tiles, and the kernel's permission to use their registers in this process.
bool has_amx() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned tile_and_int8 = 3u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & tile_and_int8) != tile_and_int8)
        return false;
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

int usable_cpus() {
    int cpus = affinity_cpus(), quota = quota_cpus();
    return quota > 0 ? std::min(cpus, quota) : cpus;
}

const char* isa_name(CpuIsa isa) {
    switch (isa) {
        case CpuIsa::automatic:
            return "automatic";
        case CpuIsa::scalar:
            return "scalar";
        case CpuIsa::avx2:
            return "avx2";
        case CpuIsa::avx512:
            return "avx512";
        case CpuIsa::amx:
            return "amx";
    }
    return "unknown";
}

// __builtin_cpu_supports also checks that the operating system saves the registers.
std::vector<CpuIsa> cpu_isas() {
    std::vector<CpuIsa> isas = {CpuIsa::scalar};
    const bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (!avx2) return isas;
    isas.push_back(CpuIsa::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        isas.push_back(CpuIsa::avx512);
    if (isas.back() == CpuIsa::avx512 && has_amx()) isas.push_back(CpuIsa::amx);
    return isas;
}

}  // namespace sluice
