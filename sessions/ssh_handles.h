// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libssh/libssh.h>

#include <memory>
#include <string>

#include "core/base/result.h"

namespace piper {

struct SshKeyDeleter {
    void operator()(ssh_key key) const { ssh_key_free(key); }
};
using SshKey = std::unique_ptr<ssh_key_struct, SshKeyDeleter>;

/// libssh leaves open a socket that it was given, unless it failed: told to forget that, it closes
/// each once.
struct SshSessionDeleter {
    void operator()(ssh_session session) const {
        const socket_t none = SSH_INVALID_SOCKET;
        ssh_options_set(session, SSH_OPTIONS_FD, &none);
        ssh_disconnect(session);
        ssh_free(session);
    }
};
using SshSession = std::unique_ptr<ssh_session_struct, SshSessionDeleter>;

struct SshChannelDeleter {
    void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
};
using SshChannel = std::unique_ptr<ssh_channel_struct, SshChannelDeleter>;

/// "SHA256:..." of a public key; empty when it has none.
[[nodiscard]] std::string sshFingerprint(ssh_key key);

/// What libssh says of its last fault, safe to show.
[[nodiscard]] std::string sshErrorText(ssh_session session);

}  // namespace piper
