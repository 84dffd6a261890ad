// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/callbacks.h>

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "sessions/connection.h"
#include "sessions/remote_shell.h"
#include "sessions/ssh_link.h"

namespace piper {

/// A POSIX script that runs on the host over a channel of its own.
class SshExec {
public:
    /// Context of the errors after which nothing has run.
    static constexpr const char* kOpening = "nothing was run";

    [[nodiscard]] static Result<std::unique_ptr<SshExec>> start(std::shared_ptr<SshLink> link,
                                                                std::string_view script);
    ~SshExec();
    SshExec(const SshExec&) = delete;
    SshExec& operator=(const SshExec&) = delete;

    /// Appends what came; waits up to `timeout_ms` when nothing did. False when the script has
    /// ended and all is read. Errors: External when the connection is lost.
    Result<bool> pump(std::string& output, std::string& error_output, int timeout_ms);
    /// Sends to the script's standard input, as much as the host takes; waits for it.
    Status write(std::string_view bytes, const std::stop_token& stop);
    Status closeInput();
    /// Ends the script and all it started (endRemoteGroup).
    Status end(int grace_ms);
    /// Once ended; 128 + signal when killed.
    [[nodiscard]] std::optional<int> exitStatus() const { return m_exit; }
    /// Of the script's shell and its process group; 0 before it began.
    [[nodiscard]] std::int64_t pid() const { return m_output.pid(); }
    [[nodiscard]] bool began() const { return m_output.started(); }
    /// The error for a command that ended before it began: the login shell did not run /bin/sh.
    [[nodiscard]] Error neverBegan() const;
    [[nodiscard]] const std::shared_ptr<SshLink>& link() const { return m_link; }

private:
    SshExec(std::shared_ptr<SshLink> link, const std::string& marker);
    void handlePackets();
    Result<bool> readStream(bool error, MarkerFilter& filter, std::string& into);

    std::shared_ptr<SshLink> m_link;
    SshChannel m_channel;
    ssh_channel_callbacks_struct m_callbacks{};
    MarkerFilter m_output, m_error;
    std::optional<int> m_exit;
};

/// Runs a script to its end. `input` goes to its standard input.
/// Errors: External for a lost connection, or output beyond all bounds (the command is ended);
/// Cancelled when stopped (the command is ended).
[[nodiscard]] Result<CommandResult> runScript(const std::shared_ptr<SshLink>& link,
                                              std::string_view script, std::string_view input = {},
                                              const std::stop_token& stop = {});

/// Ends the process group of `pid`: SIGTERM, SIGKILL after `grace_ms`, and looks until none of it
/// is left. Errors: External when something is.
Status endRemoteGroup(const std::shared_ptr<SshLink>& link, std::int64_t pid, int grace_ms);

}  // namespace piper
