// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sessions/launcher.h"

namespace piper {

/// Ranks of a plan on the nodes of Slurm, in blocks of devices_per_node.
struct SlurmShape {
    std::int64_t nodes, tasks_per_node, tasks;
};
[[nodiscard]] SlurmShape slurmShape(const Plan& plan);

/// srun's options for the ranks of a plan, and the worker's own command line.
[[nodiscard]] std::vector<std::string> srunCommand(const LaunchRequest& request,
                                                   const std::vector<std::string>& more);

/// Account, partition and time limit of the user's, as options of srun and sbatch.
[[nodiscard]] std::vector<std::string> slurmChoices(const LauncherOptions& options);

/// A line of the user's asks Slurm for devices: --gres, --gpus-per-node, -G, ...
[[nodiscard]] bool asksForDevices(const LauncherOptions& options);

/// "--gpus-per-node=8" for a plan on GPUs where Slurm hands some out and no line of the user's asks
/// for any; else empty. Errors: those of the connection.
[[nodiscard]] Result<std::string> deviceChoice(Connection& connection, const Plan& plan,
                                               const LauncherOptions& options);

/// What a command of Slurm's says, on one line, without who says it.
[[nodiscard]] std::string slurmWords(std::string_view text);

/// Lines before srun: MPI between its tasks, over the interface chosen.
[[nodiscard]] std::string slurmEnvironment(const LauncherOptions& options);

/// Lines of a job's script after srun: a step that Slurm could not end has a node that no longer
/// answers, which Slurm knows some time later; it is named in the log. `slurm_job`: a word of the
/// shell; empty: none.
[[nodiscard]] std::string namesLostNode(const std::string& slurm_job);

/// Shell functions of scripts that ask Slurm for a job, in its directory:
///   look JOB   a=1 while Slurm has it (or does not answer), 0 then; q its state and reason; w its
///              place in the queue and b its expected start, empty unless it waits
///   note JOB   writes its number into the launcher.json that has none yet
///   adopt      does so for a job that Slurm has under the name in launch.sh; j its number, empty
///              when there is none; status 1 when Slurm does not answer
///   ended JOB  a=1 when Slurm has it after all; else writes slurm_end, "STATE TIME_LIMIT
///   LOST_NODES", where no exit status is left
[[nodiscard]] std::string_view slurmFunctions();

/// Ends a batch job within 9 s: ranks first with SIGTERM, after 5 s with SIGKILL. Exit status 9 and
/// its nodes when Slurm has it still. Needs slurmFunctions().
[[nodiscard]] std::string cancelSlurmJob(const std::string& slurm_job);

/// The same for steps inside an allocation, of the name in launch.sh of the directory it runs in,
/// or of this one; sets bad=1 when one is left.
[[nodiscard]] std::string cancelSlurmSteps(const std::string& step_name);

/// What slurm_end says, as a sentence; nothing for a text that is none of ours.
[[nodiscard]] std::optional<std::string> slurmEnding(std::string_view text);

/// Slurm's own words in a log for what it ended a job for: time limit, lost node, memory,
/// preemption.
[[nodiscard]] std::optional<std::string> slurmEndingInLog(std::string_view log);

/// Why the allocation cannot take a step; empty when it can. Errors: those of the connection.
[[nodiscard]] Result<std::string> whyNoAllocation(Connection& connection,
                                                  const std::string& allocation);

/// The error of a job that sbatch refused, with what was asked for and what there is.
[[nodiscard]] Error slurmRefusal(Connection& connection, const LauncherOptions& options,
                                 const CommandResult& sbatch);

}  // namespace piper
