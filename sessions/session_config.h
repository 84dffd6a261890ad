// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "sessions/launcher.h"

namespace piper {

/// A cluster the user gave a name. Never holds a password, a passphrase or a key.
struct SessionConfig {
    std::string name;
    std::string host;  ///< an alias of ~/.ssh/config or [user@]host[:port]; empty: this machine
    std::string ssh_config;           ///< a configuration file instead of ~/.ssh/config
    std::string directory;            ///< ours on the host; empty: ~/.local/state/piper-workbench
    std::string worker;               ///< a worker that is there already; empty: ours is sent
    std::string launcher = "mpirun";  ///< mpirun, srun or sbatch
    LauncherOptions launch;

    [[nodiscard]] bool isLocal() const { return host.empty(); }
};

/// $PIPER_SESSIONS, else $XDG_CONFIG_HOME/piper-workbench/sessions.json, else in ~/.config.
[[nodiscard]] std::filesystem::path sessionsFile();

/// The sessions of this user in one small file (docs/sessions.md); "local" is always there.
class SessionStore {
public:
    explicit SessionStore(std::filesystem::path file) : m_file(std::move(file)) {}

    /// Errors: InvalidInput naming the file and key when it cannot be understood.
    [[nodiscard]] Result<std::vector<SessionConfig>> list() const;
    /// Errors: NotFound names the sessions there are.
    [[nodiscard]] Result<SessionConfig> find(std::string_view name) const;
    /// Errors: InvalidInput for a name that is taken or has odd characters, a bad host or launcher.
    Status add(const SessionConfig& session) const;
    Status forget(std::string_view name) const;

private:
    Status write(const std::vector<SessionConfig>& sessions) const;
    std::filesystem::path m_file;
};

[[nodiscard]] Json sessionJson(const SessionConfig& session);

}  // namespace piper
