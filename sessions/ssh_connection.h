// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "sessions/connection.h"
#include "sessions/ssh_config.h"
#include "sessions/ssh_prompter.h"

namespace piper {

struct SshOptions {
    std::string label;                      ///< of the session, for messages
    std::vector<SshHostConfig> route;       ///< hops to pass, the target last (resolveSshRoute)
    std::shared_ptr<SshPrompter> prompter;  ///< null: nothing may be asked
    int reconnect_seconds = 30;             ///< how long a lost connection is tried again
};

/// A host behind SSH. One connection carries all channels; a lost one is opened again with growing
/// pauses. Reading goes on where it was; a command that ran when the connection broke is not
/// repeated. Several threads may use it at once.
/// Errors: those of the hops (SshLink).
[[nodiscard]] Result<std::unique_ptr<Connection>> openSshConnection(SshOptions options,
                                                                    std::stop_token stop = {});

}  // namespace piper
