// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sessions/launcher.h"

namespace piper {

/// The worker's own command line for a request, without its launcher.
[[nodiscard]] std::vector<std::string> workerCommand(const LaunchRequest& request);

/// "rank 3: node 0, pp 1, dp 0, ep 1, edp 0" for every rank.
[[nodiscard]] std::vector<std::string> rankMap(const Plan& plan);

/// What on the host would spoil the run, each with its reason: missing libraries, too few
/// processors or devices, an interface that is not there.
[[nodiscard]] Result<std::vector<std::string>> checkEnvironment(Connection& connection,
                                                                const LaunchRequest& request,
                                                                const LauncherOptions& options,
                                                                std::string_view launcher);

/// The part of a job's script that runs a command and records how it ended.
struct RecordedCommand {
    std::vector<std::string> command;
    std::string before;       ///< lines of the same shell, after the user's own
    std::string redirection;  ///< of its output
    std::string beside;       ///< watches process $m of it
    std::string after;        ///< lines that see its exit status as $status, before it is noted
};
[[nodiscard]] std::string scriptOf(const RecordedCommand& what, const LauncherOptions& options);

/// The user's own lines for the shell, silent: they may make the launcher found.
[[nodiscard]] std::string ownLines(const LauncherOptions& options);

/// Makes the job directory with plan, record and the script that makes the job's digest.
/// Errors: those of the connection.
Status prepareJob(Connection& connection, const LaunchRequest& request,
                  const LauncherOptions& options, const std::string& record_text);

}  // namespace piper
