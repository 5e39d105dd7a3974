#include "cache/budget.h"

#include <doctest/doctest.h>

#include "tests/support/temp_folder.h"

using namespace sluice;

namespace {

constexpr uint64_t mib = uint64_t{1} << 20, gib = uint64_t{1} << 30;

// The files of a machine, below a folder.
struct Machine {
    TempFolder root;
    explicit Machine(uint64_t available_kib, const std::string& cgroup) {
        put("proc/meminfo",
            "MemTotal:       99999999 kB\nMemFree:             123 kB\n"
            "MemAvailable:   " +
                std::to_string(available_kib) + " kB\n");
        put("proc/self/cgroup", cgroup);
    }
    void put(const std::string& name, const std::string& text) {
        std::filesystem::create_directories((root / name).parent_path());
        write_file(root / name, text);
    }
    void group(const std::string& folder, const std::string& max, uint64_t current,
               uint64_t inactive_file = 0) {
        put("sys/fs/cgroup" + folder + "/memory.max", max + "\n");
        put("sys/fs/cgroup" + folder + "/memory.current", std::to_string(current) + "\n");
        put("sys/fs/cgroup" + folder + "/memory.stat",
            "anon 5\nfile 99\ninactive_file " + std::to_string(inactive_file) + "\n");
    }
};

}  // namespace

TEST_CASE("a budget is exact to the byte and names its reservations") {
    Budget budget("ram", 1000 * mib);
    REQUIRE(budget.take("dense weights", 600 * mib));
    REQUIRE(budget.take("row cache", 300 * mib));
    CHECK(budget.left() == 100 * mib);
    auto refused = budget.take("expert cache, 120 slots", 101 * mib);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::no_memory);
    for (const char* text :
         {"expert cache, 120 slots", "ram", "dense weights", "row cache", "1 MiB more"}) {
        CHECK_MESSAGE(refused.error().message.find(text) != std::string::npos,
                      refused.error().message);
    }
    CHECK_FALSE(budget.take("everything", UINT64_MAX));
    CHECK(budget.used() == 900 * mib);
    REQUIRE(budget.take("the rest", 100 * mib));
    CHECK(budget.left() == 0);
    CHECK_FALSE(budget.take("one byte", 1));
    REQUIRE(budget.take("nothing", 0));
    CHECK(budget.lines().size() == 4);
    CHECK(budget.lines()[0].device == "ram");

    const std::string table = budget.table();
    CHECK(std::count(table.begin(), table.end(), '\n') == 5);
    CHECK(table.find("dense weights") < table.find("row cache"));
    CHECK(table.find("row cache") < table.find("sum"));
}

TEST_CASE("this machine has some RAM") {
    CHECK(available_ram() > 16 * mib);
    CHECK(available_ram() < uint64_t{1} << 50);
    CHECK(default_ram_budget() < available_ram());
}

TEST_CASE("without cgroup limits, MemAvailable decides") {
    Machine machine(8 * 1024 * 1024, "0::/user.slice/app\n");
    CHECK(available_ram(machine.root.path()) == 8 * gib);
    CHECK(default_ram_budget(machine.root.path()) == 7 * gib);
    machine.group("/user.slice/app", "max", 5 * gib);
    CHECK(available_ram(machine.root.path()) == 8 * gib);
}

TEST_CASE("cgroup v2: the smallest limit of the group and its parents, minus unreclaimable use") {
    Machine machine(64 * 1024 * 1024, "0::/a/b/c\n");
    machine.group("/a/b/c", "9000000000", 1000000000, 400000000);
    CHECK(available_ram(machine.root.path()) == 8400000000);
    machine.group("/a", "4000000000", 1500000000);
    CHECK(available_ram(machine.root.path()) == 2500000000);
    machine.put("sys/fs/cgroup/a/b/c/memory.high", "2000000000\n");
    CHECK(available_ram(machine.root.path()) == 1400000000);
    machine.put("sys/fs/cgroup/a/memory.current", "4500000000\n");
    CHECK(available_ram(machine.root.path()) == 0);
    CHECK(default_ram_budget(machine.root.path()) == 0);
}

TEST_CASE("cgroup v2 in a container: the host's path is missing, the container's root is used") {
    Machine machine(64 * 1024 * 1024, "0::/docker/0123456789abcdef\n");
    machine.group("", "3221225472", 1 * gib);
    CHECK(available_ram(machine.root.path()) == 2 * gib);
    CHECK(default_ram_budget(machine.root.path()) == 1 * gib);
    machine.put("proc/self/cgroup", "0::/../../elsewhere\n");
    CHECK(available_ram(machine.root.path()) == 2 * gib);
}

TEST_CASE("cgroup v1") {
    Machine machine(64 * 1024 * 1024,
                    "9:cpu,cpuacct:/x\n4:memory:/jobs/7\n1:name=systemd:/\n0::/y\n");
    machine.put("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n");
    machine.put("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "5368709120\n");
    machine.put("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "3221225472\n");
    machine.put("sys/fs/cgroup/memory/jobs/memory.stat",
                "inactive_file 7\ntotal_inactive_file 1073741824\n");
    CHECK(available_ram(machine.root.path()) == 3 * gib);
    CHECK(default_ram_budget(machine.root.path()) == 2 * gib);
}

TEST_CASE("without these files, or with nonsense in them, no RAM is available") {
    TempFolder empty;
    CHECK(available_ram(empty.path()) == 0);
    Machine machine(4 * 1024 * 1024, "nonsense\n::::\n0:memory\n\n");
    machine.put("sys/fs/cgroup/memory.max", "a lot");
    CHECK(available_ram(machine.root.path()) == 4 * gib);
}

TEST_CASE("the default leaves half of a small machine free, a tenth of a large one") {
    CHECK(default_ram_budget(Machine(1024 * 1024, "").root.path()) == gib / 2);
    CHECK(default_ram_budget(Machine(100 * 1024 * 1024, "").root.path()) == 90 * gib);
}

TEST_CASE("a budget that would make the machine swap is refused with both numbers") {
    CHECK(check_ram(4 * gib, 4 * gib));
    const auto refused = check_ram(64 * gib, 30 * gib);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::no_memory);
    CHECK(refused.error().message.find("--ram 64 GiB") != std::string::npos);
    CHECK(refused.error().message.find("30 GiB") != std::string::npos);
}

TEST_CASE("cache slots: off, too few for a token, what fits, all") {
    const SlotRequest model = {18800640, 40, 384, 6, 0};
    const auto slots = [&](uint64_t left) {
        SlotRequest request = model;
        request.left = left;
        return plan_cache_slots(request);
    };
    CHECK(*slots(0) == 0);
    for (uint64_t left : {uint64_t{1}, 240 * model.slot_bytes - 1}) {
        auto refused = slots(left);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == Code::no_memory);
        CHECK(refused.error().message.find("one token uses 240") != std::string::npos);
        CHECK(refused.error().message.find(std::to_string(240 * model.slot_bytes)) !=
              std::string::npos);
    }
    CHECK(*slots(240 * model.slot_bytes) == 240);
    CHECK(*slots(1000 * model.slot_bytes + 7) == 1000);
    CHECK(*slots(UINT64_MAX) == 40 * 384);
}
