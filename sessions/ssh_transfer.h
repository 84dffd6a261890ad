// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "core/base/result.h"
#include "sessions/connection.h"
#include "sessions/ssh_link.h"

namespace piper {

/// Fetches into "LOCAL.part", from where an earlier try ended, checks the SHA-256 of the whole with
/// the host and renames. A file that grows meanwhile gives what it held at the start.
/// Errors: External when the check fails twice: the file changes, or the way is bad; Io when it
/// does not fit on the disk here.
Status fetchFile(const std::shared_ptr<SshLink>& link, const std::string& remote,
                 const std::filesystem::path& local, const TransferProgress& progress,
                 const std::stop_token& stop);

/// Sends likewise into "REMOTE.part", checks and renames; mode 0700 or 0600.
Status sendFile(const std::shared_ptr<SshLink>& link, const std::filesystem::path& local,
                const std::string& remote, bool executable, const TransferProgress& progress,
                const std::stop_token& stop);

/// The script that writes `bytes` of its standard input into a file, whole or not at all.
[[nodiscard]] std::string writeScript(const std::string& path, std::int64_t bytes, bool executable);

/// Io with what the script said when it ended with another status than 0.
Status scriptStatus(const Result<CommandResult>& r, std::string_view what,
                    const std::string& where);

}  // namespace piper
