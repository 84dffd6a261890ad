// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/isolate.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

extern char** environ;

namespace piper::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Starts the command with its output in `write_end`; the error number of posix_spawn.
int start(const std::vector<std::string>& command, int write_end, pid_t& child) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end, 1);
    posix_spawn_file_actions_adddup2(&actions, write_end, 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    const int error =
        posix_spawnp(&child, arguments.front(), &actions, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/// Collects output until the other end closes; false when the time is over first.
bool collect(int read_end, Clock::time_point deadline, std::string& output) {
    std::array<char, 4096> part{};
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (left.count() <= 0) return false;
        pollfd ready{read_end, POLLIN, 0};
        if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
        const ssize_t count = read(read_end, part.data(), part.size());
        if (count <= 0) return true;
        output.append(part.data(), static_cast<std::size_t>(count));
    }
}

}  // namespace

std::string Ending::fault(int seconds) const {
    if (timed_out) return "no answer in " + std::to_string(seconds) + " s";
    if (status > 128) {
        return "signal " + std::to_string(status - 128) + " (" + strsignal(status - 128) + ")";
    }
    return status == 0 ? std::string() : "exit status " + std::to_string(status);
}

Ending runIsolated(const std::vector<std::string>& command, int seconds) {
    Ending ending;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ending.output = std::strerror(errno);
        return ending;
    }
    pid_t child = 0;
    const int error = start(command, ends[1], child);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        ending.output = command.front() + ": " + std::strerror(error);
        ending.status = 127;
        return ending;
    }
    ending.timed_out =
        !collect(ends[0], Clock::now() + std::chrono::seconds(seconds), ending.output);
    if (ending.timed_out) kill(-child, SIGKILL);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ending;
}

}  // namespace piper::cuda
