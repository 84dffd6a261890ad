// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sessions/launcher.h"

namespace piper {

/// launcher.json of a job directory: what cancelling and watching need to know later.
struct JobRecord {
    std::string launcher = "mpirun";
    std::vector<std::string> hosts;  ///< other hosts that mpirun starts ranks on
    std::string slurm_job;           ///< id, "" when none
};
[[nodiscard]] std::string jobRecordText(const JobRecord& record);
[[nodiscard]] Result<JobRecord> readJobRecord(std::string_view text, std::string_view where);

/// Runs a POSIX script on the host.
[[nodiscard]] Result<CommandResult> runShell(Connection& connection, const std::string& script);

[[nodiscard]] std::unique_ptr<Job> makeJob(Connection& connection, std::string directory,
                                           JobRecord record);

/// Prints a job's state whenever it changes, until it has ended (JobWatch reads it):
///   S <status.json on one line>   E <exit status>   A <1 launcher alive, 0 not>
///   C <1 cancelled>   Q <state and reason in Slurm's queue>   P <place in the queue>
///   B <when Slurm expects to start it>
/// each report ended by a line ".", and a lone "." now and then, by which it learns that nobody
/// listens any more.
[[nodiscard]] std::string watchScript(const std::string& directory, const JobRecord& record);

/// One report of every job under a root, each begun with a line "N <name of its directory>". Of one
/// that did not end as it should also:
///   L <lines of the log that say what ended it>   Z <slurm_end>
[[nodiscard]] std::string listScript(const std::string& jobs_root);

/// Ends every process of a job on every node and looks until none is left; exit status 9 and the
/// host's name when one is.
[[nodiscard]] std::string cancelScript(const std::string& directory, const JobRecord& record);

/// Name of a job's step or batch job in Slurm.
[[nodiscard]] std::string stepName(const std::string& directory);

/// Between a host's name and why, in the log of a job whose ranks mpirun could not start there.
inline constexpr std::string_view kCannotBeReached = " cannot be reached: ";
/// Before the host's name in that line of the log, so that no rank's own words are taken for it.
inline constexpr std::string_view kReachSays = "piper: ";

/// What ended a job from outside, in the words its launcher left in the log: a lost node, Slurm's
/// time limit, ...; nothing when it ended by itself.
[[nodiscard]] std::optional<std::string> launcherEnding(std::string_view log);

/// Why a job failed, from its log: the lost node, the worker's own sentence, or the last line.
[[nodiscard]] std::string failureReason(std::string_view log);

}  // namespace piper
