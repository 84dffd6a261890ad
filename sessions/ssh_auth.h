// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/libssh.h>

#include "core/base/result.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_prompter.h"

namespace piper {

/// Logs in: agent, keys (a passphrase is asked for only when the host takes the key),
/// keyboard-interactive, password; several in turn where the host wants more than one.
/// Errors: External naming what was tried and what the host takes; Cancelled when the user gave up.
Status authenticate(ssh_session session, const SshHostConfig& host, SshPrompter* prompter);

}  // namespace piper
