// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/child_process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace piper::app {
namespace {

constexpr int kCannotStart = 127;

double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

double cpuSeconds(const rusage& use) {
    return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

Result<ProcessCost> costOf(const std::function<int()>& work) {
    std::fflush(nullptr);  // what is buffered would be printed twice
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child < 0)
        return fail(ErrorCode::External, "cannot start a process: {}", std::strerror(errno));
    if (child == 0) _exit(work());
    int status = 0;
    rusage use{};
    while (wait4(child, &status, 0, &use) < 0)
        if (errno != EINTR)
            return fail(ErrorCode::External, "cannot wait for a process: {}", std::strerror(errno));
    if (!WIFEXITED(status))
        return fail(ErrorCode::External, "a measured process died of signal {}", WTERMSIG(status));
    ProcessCost cost;
    cost.cpu_seconds = cpuSeconds(use);
    cost.wall_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    cost.peak_bytes = static_cast<std::int64_t>(use.ru_maxrss) * 1024;
    cost.exit_status = WEXITSTATUS(status);
    return cost;
}

Result<ProcessCost> costOf(const std::vector<std::string>& command) {
    PIPER_ASSIGN(const ProcessCost cost, costOf([&] {
                     std::vector<char*> arguments;
                     for (const std::string& word : command)
                         arguments.push_back(const_cast<char*>(word.c_str()));
                     arguments.push_back(nullptr);
                     const int nothing = open("/dev/null", O_WRONLY);
                     if (dup2(nothing, STDOUT_FILENO) < 0 || dup2(nothing, STDERR_FILENO) < 0)
                         return kCannotStart;
                     execvp(arguments[0], arguments.data());
                     return kCannotStart;
                 }));
    if (cost.exit_status == kCannotStart)
        return fail(ErrorCode::NotFound, "cannot start {}", command.front());
    return cost;
}

double ownCpuSeconds() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return cpuSeconds(use);
}

std::int64_t ownPageFaults() {
    rusage use{};
    getrusage(RUSAGE_SELF, &use);
    return use.ru_minflt;
}

}  // namespace piper::app
