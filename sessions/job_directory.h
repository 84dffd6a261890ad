// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper {

/// Names of the files of a job directory (docs/formats.md).
inline constexpr std::string_view kPlanFile = "plan.json";
inline constexpr std::string_view kStatusFile = "status.json";
inline constexpr std::string_view kLogFile = "log.txt";
inline constexpr std::string_view kScriptFile = "launch.sh";
inline constexpr std::string_view kLauncherPidFile = "launcher.pid";
inline constexpr std::string_view kExitStatusFile = "exit_status";
inline constexpr std::string_view kLauncherRecordFile = "launcher.json";
inline constexpr std::string_view kCancelledFile = "cancelled";
inline constexpr std::string_view kSlurmEndFile = "slurm_end";
inline constexpr std::string_view kReachScriptFile = "reach.sh";
inline constexpr std::string_view kLostHostFile = "lost_host";
inline constexpr std::string_view kDigestScriptFile = "digest.sh";

/// Where this user's jobs live: $PIPER_JOBS, else $XDG_STATE_HOME/piper-workbench/jobs, else
/// ~/.local/state/piper-workbench/jobs.
[[nodiscard]] std::filesystem::path localJobsRoot();

/// A file name a host may give us: one part, not "." or "..", no "/" and no NUL.
[[nodiscard]] bool isPlainFileName(std::string_view name);

/// A job's directory as its processes and records name it: without "//", "." and a "/" at the end.
/// Errors: InvalidInput when it is not absolute, or its last part is not the name of a job, below
/// which files of that job are kept here.
[[nodiscard]] Result<std::string> checkJobDirectory(std::string_view directory);

/// The last part of a job's directory.
[[nodiscard]] std::string jobName(std::string_view directory);

/// A directory name no other job has: "20261129T164512-name-1234".
[[nodiscard]] std::string newJobName(std::string_view name);

}  // namespace piper
