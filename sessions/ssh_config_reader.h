// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "sessions/ssh_config.h"

namespace piper {

/// What the files say of a host, before "~" and "%" are expanded and defaults filled in.
struct SshConfigValues {
    SshHostConfig host;
    std::set<std::string> set;  ///< keywords that have a value already, in lower case
};

/// `typed` holds what the user typed of the host: its name, and what no file may change.
[[nodiscard]] Result<SshConfigValues> readSshConfig(const SshConfigFiles& files,
                                                    SshConfigValues typed);

/// A port number. Errors: InvalidInput naming the text it stands in.
[[nodiscard]] Result<int> readSshPort(std::string_view text, std::string_view in);

}  // namespace piper
