// A child process in which chosen system calls fail, as in a sandbox, to see how the code under
// test handles that. The parent is not affected.
#pragma once

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct BlockedCall {
    uint32_t number;  // of the system call
    uint32_t error;   // the errno that it fails with
    // Only if the lower half of this argument has this value.
    struct Argument {
        uint32_t index;
        uint32_t value;
    };
    std::optional<Argument> argument = {};
};

inline bool block_calls(const std::vector<BlockedCall>& calls) {
    const auto load = [](size_t offset) {
        return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
    };
    std::vector<sock_filter> program;
    for (const BlockedCall& call : calls) {
        const uint8_t skip = call.argument ? 3 : 1;
        program.push_back(load(offsetof(seccomp_data, nr)));
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, skip));
        if (call.argument) {
            program.push_back(load(offsetof(seccomp_data, args) + 8 * call.argument->index));
            program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.argument->value, 0, 1));
        }
        program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | call.error));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog filter{.len = static_cast<unsigned short>(program.size()),
                            .filter = program.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// What `work` returned in a child process, optionally preceded by its standard error and a line
// "---".
inline std::string in_child(const std::function<std::string()>& work, bool with_stderr = false) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(ends[0]);
        std::string text;
        if (with_stderr) dup2(ends[1], 2);
        text = work();
        if (with_stderr) text = "---\n" + text;
        const bool written = write(ends[1], text.data(), text.size()) >= 0;
        _exit(written ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char piece[4096];
    for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;) text.append(piece, got);
    close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_MESSAGE((WIFEXITED(status) && WEXITSTATUS(status) == 0), "the child failed: ", text);
    return text;
}

}  // namespace sluice
