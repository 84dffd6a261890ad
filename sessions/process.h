// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// A child process in a process group of its own, its output read without blocking.
/// Destroying it neither waits for nor ends the process.
class ChildProcess {
public:
    /// Starts argv[0] (looked up in PATH) in `directory` ("" for the current one).
    /// Errors: External when it cannot be started, naming the program.
    [[nodiscard]] static Result<ChildProcess> start(const std::vector<std::string>& argv,
                                                    const std::string& directory);
    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess();

    [[nodiscard]] pid_t pid() const { return m_pid; }
    /// Appends what came since the last call; false when both streams have ended.
    bool readAvailable(std::string& output, std::string& error_output);
    /// Waits up to `timeout_ms` for output or the end of the streams.
    void waitReadable(int timeout_ms) const;
    /// Exit status once ended (128 + signal when killed); does not block.
    [[nodiscard]] std::optional<int> poll();
    /// SIGTERM to the group, SIGKILL after grace_ms; returns when the process is gone.
    Status cancel(int grace_ms);

private:
    ChildProcess() = default;
    void closeStreams();

    pid_t m_pid = -1;
    int m_output = -1;
    int m_error = -1;
    std::optional<int> m_exit;
};

}  // namespace piper
