// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/libssh.h>

#include "core/base/result.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_prompter.h"

namespace piper {

/// Verifies the key of a connected host against OpenSSH's known_hosts. An unknown key is shown to
/// the prompter and written when accepted; without a prompter it is refused.
/// Errors: RuleBroken for a changed or revoked key, with the fingerprints; nobody is asked then.
Status verifyHostKey(ssh_session session, const SshHostConfig& host, SshPrompter* prompter);

/// Algorithms of host keys to ask for: those that the configuration names, else ours, of which the
/// types that known_hosts has a key of come first, so that a host with several keys shows that one.
[[nodiscard]] std::string preferredHostKeys(const SshHostConfig& host);

}  // namespace piper
