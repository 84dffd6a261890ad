// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// What OpenSSH's configuration files say of one host, as far as we follow them. The first value
/// found wins, as in OpenSSH; nothing in a file is ever executed.
struct SshHostConfig {
    std::string alias;  ///< the name the user typed
    std::string host_name;
    std::string user;
    int port = 22;
    std::vector<std::string> identity_files;  ///< as configured, else OpenSSH's usual names
    bool identities_only = false;
    std::string identity_agent;            ///< a socket, "none", or "" for $SSH_AUTH_SOCK
    std::vector<std::string> jumps;        ///< "[user@]host[:port]", nearest to us first
    std::vector<std::string> known_hosts;  ///< an accepted key is written to the first
    std::vector<std::string> global_known_hosts;
    std::string host_key_alias;     ///< name in known_hosts instead of host_name
    bool unknown_hosts_ask = true;  ///< false: StrictHostKeyChecking yes
    int connect_timeout_seconds = 15;
    int alive_interval_seconds = 15;
    bool compression = false;
    bool public_key = true;
    bool keyboard_interactive = true;
    bool password = true;
    bool batch_mode = false;  ///< nothing may be asked
    std::string ciphers, macs, key_exchange, host_key_algorithms;
    std::vector<std::string> remarks;  ///< what the files ask for and we do not do, with its line

    /// "host" or "[host]:port" as known_hosts spells it.
    [[nodiscard]] std::string knownHostsName() const;
    /// "user@host:port", for messages.
    [[nodiscard]] std::string address() const;
};

/// Where a configuration is read from.
struct SshConfigFiles {
    std::vector<std::filesystem::path> files;  ///< in this order; missing ones are passed over
    std::filesystem::path home;
    std::string local_user;
    /// As OpenSSH does with ~/.ssh/config: files that others may write are refused.
    bool must_be_private = false;

    /// ~/.ssh/config and /etc/ssh/ssh_config of this user.
    [[nodiscard]] static SshConfigFiles ofThisUser();
};

/// Errors: InvalidInput with file and line for a value that cannot be read; Io for a file that is
/// there and cannot be read; RuleBroken for one that others may write (must_be_private);
/// Unsupported for what the host needs and we do not do (ProxyCommand, RevokedHostKeys).
[[nodiscard]] Result<SshHostConfig> resolveSshHost(const SshConfigFiles& files,
                                                   std::string_view alias);

/// The hosts to pass, the target last; "[user@]host[:port]" of a jump is resolved like the target.
/// Errors: those of resolveSshHost; RuleBroken for a loop of jumps.
[[nodiscard]] Result<std::vector<SshHostConfig>> resolveSshRoute(const SshConfigFiles& files,
                                                                 std::string_view alias);

/// Errors: InvalidInput when `text` is no "[user@]host[:port]".
Status checkSshHost(std::string_view text);

/// OpenSSH's pattern lists: "*" and "?" stand for text, "!" takes a match back.
[[nodiscard]] bool matchesSshPatterns(std::string_view text,
                                      const std::vector<std::string>& patterns);

}  // namespace piper
