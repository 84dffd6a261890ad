// SPDX-License-Identifier: Apache-2.0
#include "sessions/plan_run.h"

#include "collectors/live/collect.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/predict/predict.h"
#include "core/resources/measured_routing.h"
#include "sessions/job_directory.h"
#include "sessions/launchers.h"

namespace piper {
namespace {

/// Text that every Debian ships (base-files), for runs without a data file of the user's.
constexpr const char* kDefaultData = "/usr/share/common-licenses/GPL-3";

/// The name of a measured run's prediction: "modelled" beside "measured", else "NAME modelled".
std::string predictionName(const std::string& measured) {
    return measured.starts_with("measured") ? "modelled" + measured.substr(8)
                                            : measured + " modelled";
}

bool isRankFile(const std::string& name) {
    return name.starts_with("rank-") && name.find(".piper") != std::string::npos;
}

/// Brings the files of a job that are worth keeping into a local directory.
Result<std::filesystem::path> fetchJob(Connection& connection, const std::string& directory,
                                       const std::filesystem::path& beside) {
    if (connection.isLocal()) return std::filesystem::path(directory);
    const std::filesystem::path local = beside.string() + ".job";
    std::error_code error;
    std::filesystem::create_directories(local, error);
    if (error) return fail(ErrorCode::Io, "cannot make {}: {}", local.string(), error.message());
    PIPER_ASSIGN(const std::vector<RemoteFile> files, connection.list(directory));
    for (const RemoteFile& file : files) {
        // A name with directory parts would leave the local directory; list() refuses them too.
        if (file.name.find('/') != std::string::npos || file.is_directory) continue;
        if (isRankFile(file.name) || file.name == kStatusFile || file.name == kPlanFile)
            PIPER_TRY(connection.fetch(directory + "/" + file.name, local / file.name, {}));
    }
    return local;
}

/// Stores the plan's prediction under a free name like `name`. Returns it.
Result<std::string> storePrediction(Workspace& workspace, const Plan& plan,
                                    const std::string& name) {
    constexpr std::int64_t most_ranks = 64;  // above, one timeline a stage says the same
    PIPER_ASSIGN(PredictedRun predicted, predictRun(plan, plan.layout.world() <= most_ranks));
    PIPER_ASSIGN(predicted.run.name, workspace.freeRunName(name));
    PIPER_ASSIGN(const std::int64_t id, workspace.addRun(predicted.run));
    PIPER_TRY(
        workspace.setNote(id, "prediction", predictionJson(plan, predicted.prediction).dump()));
    return predicted.run.name;
}

LaunchRequest requestOf(const Plan& plan, const PlanRunOptions& options) {
    LaunchRequest request;
    request.plan = plan;
    request.job_directory = options.job_directory.empty()
                                ? options.jobs_root + "/" + newJobName(options.name)
                                : options.job_directory;
    request.worker = options.worker;
    request.steps = options.steps;
    request.worker_arguments = {"--data", options.data.empty() ? kDefaultData : options.data,
                                "--seed", std::to_string(options.seed)};
    request.worker_arguments.insert(request.worker_arguments.end(),
                                    options.worker_arguments.begin(),
                                    options.worker_arguments.end());
    return request;
}

}  // namespace

Result<PlanRun> PlanRun::start(Connection& connection, const Plan& plan,
                               const PlanRunOptions& options) {
    PIPER_ASSIGN(const auto launcher, makeLauncher(options.launcher, connection, options.launch));
    PIPER_ASSIGN(auto job, launcher->launch(requestOf(plan, options)));
    return PlanRun(connection, std::move(job));
}

Result<LaunchPreview> PlanRun::preview(Connection& connection, const Plan& plan,
                                       const PlanRunOptions& options) {
    PIPER_ASSIGN(const auto launcher, makeLauncher(options.launcher, connection, options.launch));
    return launcher->preview(requestOf(plan, options));
}

Result<PlanRun> PlanRun::attach(Connection& connection, const std::string& directory) {
    PIPER_ASSIGN(auto job, openJob(connection, directory));
    return PlanRun(connection, std::move(job));
}

Result<StoredRun> PlanRun::collect(const std::filesystem::path& workspace,
                                   const std::string& run_name) {
    PIPER_ASSIGN(const std::filesystem::path local,
                 fetchJob(*m_connection, directory(), workspace));
    PIPER_ASSIGN(Workspace file, Workspace::openOrCreate(workspace));
    PIPER_ASSIGN(const std::string name, file.freeRunName(run_name));
    PIPER_ASSIGN(const CollectedRun collected, collectJob(local, file, name));
    StoredRun stored;
    stored.measured = collected.name;
    stored.outcome = collected.outcome;
    stored.reason = collected.outcome_reason;
    PIPER_ASSIGN(const std::string plan_text,
                 m_connection->readFile(directory() + "/" + std::string(kPlanFile), 64 << 20));
    PIPER_ASSIGN(const Plan plan, readPlanText(plan_text, kPlanFile));
    // A plan the model cannot predict is no reason to lose what was measured.
    const std::string modelled = predictionName(stored.measured);
    Result<std::string> predicted = storePrediction(file, plan, modelled);
    if (predicted.ok())
        stored.predicted = std::move(predicted).value();
    else
        PIPER_TRY(file.setNote(collected.run_id, "prediction", predicted.error().text()));
    // What ended the job from outside (a lost node, Slurm's time limit) no rank could record.
    if (const Result<JobStatus> last = m_job->status(); last.ok() && isFinal(last->state) &&
                                                        last->state != JobState::Finished &&
                                                        !last->message.empty())
        stored.reason = last->message;
    PIPER_ASSIGN(const Run run, file.readRun(stored.measured));
    if (const std::optional<RoutingLoad> routing = measuredRouting(run, plan);
        predicted.ok() && routing) {
        Plan routed = plan;
        routed.routing_load = *routing;
        PIPER_ASSIGN(stored.predicted_routed, storePrediction(file, routed, modelled + " routed"));
    }
    PIPER_TRY(file.close());
    return stored;
}

}  // namespace piper
