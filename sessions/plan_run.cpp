// SPDX-License-Identifier: Apache-2.0
#include "sessions/plan_run.h"

#include "sessions/job_directory.h"
#include "sessions/launchers.h"

namespace piper {
namespace {

/// Text that every Debian ships (base-files), for runs without a data file of the user's.
constexpr const char* kDefaultData = "/usr/share/common-licenses/GPL-3";

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
    return PlanRun(connection, std::move(job), options.session);
}

Result<LaunchPreview> PlanRun::preview(Connection& connection, const Plan& plan,
                                       const PlanRunOptions& options) {
    PIPER_ASSIGN(const auto launcher, makeLauncher(options.launcher, connection, options.launch));
    return launcher->preview(requestOf(plan, options));
}

Result<PlanRun> PlanRun::attach(Connection& connection, const std::string& directory,
                                std::string session) {
    PIPER_ASSIGN(auto job, openJob(connection, directory));
    return PlanRun(connection, std::move(job), std::move(session));
}

}  // namespace piper
