// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// Output of a finished command.
struct CommandResult {
    int exit_status = 0;
    std::string output;  ///< standard output, cut at the limit given
    std::string error_output;
    bool truncated = false;
};

/// A command that goes on: local child or remote channel.
class RunningCommand {
public:
    virtual ~RunningCommand() = default;
    /// Bytes of standard output and error that came since the last call; empty when none.
    [[nodiscard]] virtual Result<std::string> read() = 0;
    /// Exit status once ended.
    [[nodiscard]] virtual Result<std::optional<int>> poll() = 0;
    /// Asks the whole process group to end (SIGTERM), then ends it (SIGKILL) after `grace_ms`;
    /// returns when no process of it is left.
    virtual Status cancel(int grace_ms) = 0;
};

using TransferProgress = std::function<void(std::int64_t done, std::int64_t total)>;
/// Calls `say` whenever another whole percent is done; of nothing 100 are.
[[nodiscard]] TransferProgress everyPercent(std::function<void(std::int64_t percent)> say);

struct RemoteFile {
    std::string name;  ///< no directory parts
    std::int64_t size_bytes = 0;
    bool is_directory = false;
};

/// One host as the workbench sees it: this machine, or one behind SSH. Paths are of that host.
/// Calls block; the owner runs them on a thread of its own.
class Connection {
public:
    virtual ~Connection() = default;
    [[nodiscard]] virtual std::string_view label() const = 0;
    [[nodiscard]] virtual bool isLocal() const = 0;
    /// argv is passed as it is, quoted for the host's shell where there is one.
    [[nodiscard]] virtual Result<CommandResult> run(const std::vector<std::string>& argv,
                                                    std::stop_token stop = {}) = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<RunningCommand>> start(
        const std::vector<std::string>& argv, const std::string& directory) = 0;
    /// At most `limit_bytes` from `offset_bytes` on.
    [[nodiscard]] virtual Result<std::string> readFile(const std::string& path,
                                                       std::int64_t limit_bytes,
                                                       std::int64_t offset_bytes = 0) = 0;
    virtual Status writeFile(const std::string& path, std::string_view content,
                             bool executable) = 0;  ///< through a temporary name and a rename
    virtual Status makeDirectory(const std::string& path) = 0;  ///< private (0700), with parents
    [[nodiscard]] virtual Result<std::vector<RemoteFile>> list(const std::string& path) = 0;
    /// progress: bytes so far, total.
    virtual Status fetch(const std::string& remote, const std::filesystem::path& local,
                         const TransferProgress& progress, std::stop_token stop = {}) = 0;
    /// The other way, whole or not at all; mode 0700 when executable, else 0600.
    virtual Status send(const std::filesystem::path& local, const std::string& remote,
                        bool executable, const TransferProgress& progress,
                        std::stop_token stop = {}) = 0;
};

}  // namespace piper
