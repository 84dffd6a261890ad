// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/plan/plan.h"
#include "sessions/launcher.h"

namespace piper {

class Workspace;

/// Notes that a collected run keeps of its launch: the session, its launcher and the steps asked
/// for.
inline constexpr std::string_view kSessionNote = "session";
inline constexpr std::string_view kLauncherNote = "launcher";
inline constexpr std::string_view kStepsNote = "steps";

struct PlanRunOptions {
    std::string worker;         ///< path of piper-worker on the host
    std::string jobs_root;      ///< directory of jobs on the host
    std::string job_directory;  ///< of this one; empty: a new one below jobs_root
    std::string name = "run";
    std::int64_t steps = 10;
    std::int64_t seed = 1;
    std::string data;  ///< text file on the host; empty: the licence Debian ships
    std::vector<std::string> worker_arguments;
    std::string launcher = "mpirun";
    LauncherOptions launch;
    std::string session;  ///< name of the one that the connection belongs to
};

/// What collect() stored in the workspace.
struct StoredRun {
    std::string measured;          ///< name of the measured run in the workspace
    std::string predicted;         ///< name of its prediction, empty when there is none
    std::string predicted_routed;  ///< the prediction for the routing this run really had
    RunOutcome outcome = RunOutcome::Finished;
    std::string reason;
    std::int64_t digests = 0;  ///< ranks whose events are not in the workspace yet
};

/// How a collection reports and is stopped. Stopped, it leaves the workspace as it was and goes on
/// from there the next time.
struct CollectOptions {
    TransferProgress progress;  ///< of the bytes of all files
    std::stop_token stop;
    std::set<std::int32_t> ranks;  ///< whose events are wanted beside the digest; empty: all
};

/// One run of a plan on a host, from launch to collection. The job goes on without this object.
class PlanRun {
public:
    /// Launches. Errors: those of the launcher; nothing is left running after one.
    [[nodiscard]] static Result<PlanRun> start(Connection& connection, const Plan& plan,
                                               const PlanRunOptions& options);
    /// What start() would do. Errors: those of the launcher.
    [[nodiscard]] static Result<LaunchPreview> preview(Connection& connection, const Plan& plan,
                                                       const PlanRunOptions& options);
    /// Takes up a job launched earlier.
    [[nodiscard]] static Result<PlanRun> attach(Connection& connection,
                                                const std::string& directory,
                                                std::string session = {});

    [[nodiscard]] const std::string& directory() const { return m_job->directory(); }
    [[nodiscard]] Result<JobStatus> status() { return m_job->status(); }
    Status cancel() { return m_job->cancel(); }
    [[nodiscard]] Result<std::string> log() { return m_job->log(); }

    /// Merges what every rank recorded, also of a job that failed or was cancelled, into the
    /// workspace file (made when missing, with its directory), with the plan's prediction as a
    /// modelled run beside it, and one more for the routing load that was measured. A run of this
    /// name that is this job's digest gets the events it lacks. Everything that the host is asked
    /// for comes before the file is written to: a lost connection leaves no part of a run there.
    /// Errors: with options.ranks also those of collectDigest(), and NotFound for a rank that the
    /// job does not have.
    [[nodiscard]] Result<StoredRun> collect(const std::filesystem::path& workspace,
                                            const std::string& run_name,
                                            const CollectOptions& options = {});

    /// The same of a job that has ended, without most of its events: the host sums them up, so that
    /// little has to come (Workspace::addDigestRank). Errors: Unsupported when the host cannot.
    [[nodiscard]] Result<StoredRun> collectDigest(const std::filesystem::path& workspace,
                                                  const std::string& run_name,
                                                  const CollectOptions& options = {});

private:
    PlanRun(Connection& connection, std::unique_ptr<Job> job, std::string session)
        : m_connection(&connection), m_job(std::move(job)), m_session(std::move(session)) {}

    /// What the host says of the job beside its ranks' files.
    struct Surroundings {
        Plan plan;
        std::string launcher;           ///< empty where the job does not say
        std::optional<JobStatus> last;  ///< none where it could not be asked for
    };
    [[nodiscard]] Result<Surroundings> surroundings();
    /// Adds what belongs beside a measured run that has just been stored, or removes the run.
    Status complete(Workspace& file, std::int64_t run_id, const Surroundings& job,
                    StoredRun& stored) const;
    Result<StoredRun> collectWhole(const std::filesystem::path& workspace,
                                   const std::string& run_name, const CollectOptions& options);
    Result<StoredRun> storeDigest(const std::filesystem::path& workspace,
                                  const std::string& run_name, const CollectOptions& options);
    Result<StoredRun> addEvents(const std::filesystem::path& workspace, const Run& digest,
                                const CollectOptions& options);

    Connection* m_connection;
    std::unique_ptr<Job> m_job;
    std::string m_session;
};

}  // namespace piper
