// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "core/run/job_status.h"
#include "core/run/run.h"
#include "sessions/connection.h"

namespace piper {

/// What to launch. The job directory holds plan.json, status.json, log.txt and one
/// rank-N.piper a rank (docs/formats.md).
struct LaunchRequest {
    Plan plan;
    std::string job_directory;  ///< on the connection's host
    std::string worker;         ///< path of piper-worker there
    std::int64_t steps = 1;
    std::vector<std::string> worker_arguments;  ///< --data, --seed, ...
};

/// What the user says of how jobs are started on a cluster.
struct LauncherOptions {
    std::vector<std::string> hosts;  ///< of mpirun: "node1:4"; none: the connection's host alone
    std::string network_interface;   ///< of MPI between hosts, "eth0"; empty: MPI's own choice
    std::string account, partition, time_limit;  ///< of sbatch; empty: Slurm's own choice
    std::string allocation;                      ///< of srun: id of the job whose nodes are used
    std::vector<std::string> extra_lines;  ///< "module load cuda", "#SBATCH --gres=gpu:8", ...
};

/// What would be started, to be shown before it is.
struct LaunchPreview {
    std::vector<std::string> command;
    std::string script;                 ///< of sbatch, empty otherwise
    std::vector<std::string> rank_map;  ///< "rank 0: node0, pp 0, ep 0, dp 0"
    std::vector<std::string> warnings;  ///< environment checks, each with a reason
    std::string queue;                  ///< of sbatch: when and where Slurm would start it
};

/// A launched job. Ends on its own; destroying the handle does not end it.
class Job {
public:
    virtual ~Job() = default;
    [[nodiscard]] virtual const std::string& directory() const = 0;
    [[nodiscard]] virtual Result<JobStatus> status() = 0;
    /// Ends every rank, verified.
    virtual Status cancel() = 0;
    /// New text of the log since the last call.
    [[nodiscard]] virtual Result<std::string> log() = 0;
};

/// Starts ranks: mpirun here, srun and sbatch behind the same interface.
class Launcher {
public:
    virtual ~Launcher() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;
    [[nodiscard]] virtual Result<LaunchPreview> preview(const LaunchRequest& request) = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<Job>> launch(const LaunchRequest& request) = 0;
};

}  // namespace piper
