// SPDX-License-Identifier: Apache-2.0
#include "sessions/plan_run.h"

#include <algorithm>
#include <set>

#include "collectors/live/collect.h"
#include "collectors/live/live_recorder.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/predict/predict.h"
#include "core/resources/measured_routing.h"
#include "sessions/display_text.h"
#include "sessions/job_directory.h"
#include "sessions/launchers.h"
#include "sessions/shell_quote.h"

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

/// Where files of a job wait until they are in the workspace. Each job has its own: ranks of
/// another one must not be taken for ranks of this one.
std::filesystem::path landingPlace(const std::filesystem::path& workspace,
                                   const std::string& job_directory) {
    return std::filesystem::path(workspace.string() + ".job") / jobName(job_directory);
}

Status makeLocal(const std::filesystem::path& directory) {
    std::error_code error;
    if (!directory.empty()) std::filesystem::create_directories(directory, error);
    if (!error) return {};
    return fail(ErrorCode::Io, "cannot make the directory: {}", error.message())
        .at(directory.string());
}

/// Takes away what landed, and the directory of all jobs when it was the last one.
void clearLandingPlace(const std::filesystem::path& place) {
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
    std::filesystem::remove(place.parent_path(), ignored);
}

/// Brings files of a job directory into a local one; of a job that has ended, those that came in an
/// earlier try are there already.
Status fetchFiles(Connection& connection, const std::string& directory, bool ended,
                  const std::function<bool(const std::string&)>& wanted,
                  const std::filesystem::path& local, const CollectOptions& options) {
    PIPER_TRY(makeLocal(local));
    PIPER_ASSIGN(std::vector<RemoteFile> files, connection.list(directory));
    // A name with directory parts would leave the local directory; list() refuses them too.
    std::erase_if(files, [&](const RemoteFile& file) {
        return file.name.find('/') != std::string::npos || file.is_directory || !wanted(file.name);
    });
    std::int64_t total = 0, before = 0;
    for (const RemoteFile& file : files) total += file.size_bytes;
    for (const RemoteFile& file : files) {
        const std::filesystem::path to = local / file.name;
        std::error_code none;
        const std::uintmax_t there = std::filesystem::file_size(to, none);
        if (!ended || none || there != static_cast<std::uintmax_t>(file.size_bytes))
            PIPER_TRY(connection.fetch(
                directory + "/" + file.name, to,
                [&](std::int64_t done, std::int64_t) {
                    if (options.progress) options.progress(before + done, total);
                },
                options.stop));
        before += file.size_bytes;
        if (options.progress) options.progress(before, total);
    }
    return {};
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

constexpr std::string_view kJobNote = "job";
constexpr std::string_view kDigestNote = "digest";
constexpr std::string_view kPredictedAs = "predicted_as";

Result<Workspace> openWithDirectory(const std::filesystem::path& workspace) {
    PIPER_TRY(makeLocal(workspace.parent_path()));
    return Workspace::openOrCreate(workspace);
}

/// The run of that name when it is a digest of this job: without its events.
Result<std::optional<Run>> digestOf(const std::filesystem::path& workspace, const std::string& name,
                                    const std::string& job_directory) {
    std::error_code ignored;
    if (!std::filesystem::exists(workspace, ignored)) return std::optional<Run>();
    PIPER_ASSIGN(Workspace file, Workspace::open(workspace));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    if (std::none_of(runs.begin(), runs.end(), [&](const RunSummary& r) { return r.name == name; }))
        return std::optional<Run>();
    PIPER_ASSIGN(Run run, file.readWithoutEvents(name));
    const auto job = run.notes.find(std::string(kJobNote));
    if (job == run.notes.end() || job->second != job_directory || run.numDigests() == 0)
        return std::optional<Run>();
    return std::optional<Run>(std::move(run));
}

Result<std::int64_t> idOfRun(Workspace& file, const std::string& name) {
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    for (const RunSummary& run : runs)
        if (run.name == name) return run.id;
    return fail(ErrorCode::NotFound, "no run '{}'", name).at(file.path());
}

/// Lets the host make the digest of a job that has ended, once. Exit status 4: the job is of a
/// version that knew none.
std::string makeDigestScript(const std::string& directory) {
    return fmt::format(
        "cd {} || exit 4\n[ ! -s {} ] || exit 0\n"
        "[ -f {} ] || {{ echo 'its launcher left no script for it' >&2; exit 4; }}\n"
        "sh {} > /dev/null\n",
        shellQuote(directory), kDigestFile, kDigestScriptFile, kDigestScriptFile);
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

Status PlanRun::storePredictions(Workspace& file, std::int64_t run_id, StoredRun& stored) {
    PIPER_ASSIGN(const std::string plan_text,
                 m_connection->readFile(directory() + "/" + std::string(kPlanFile), 64 << 20));
    PIPER_ASSIGN(const Plan plan, readPlanText(plan_text, kPlanFile));
    const std::string modelled = predictionName(stored.measured);
    if (stored.predicted.empty()) {
        // A plan the model cannot predict is no reason to lose what was measured.
        Result<std::string> predicted = storePrediction(file, plan, modelled);
        if (!predicted.ok()) return file.setNote(run_id, "prediction", predicted.error().text());
        stored.predicted = std::move(predicted).value();
        PIPER_TRY(file.setNote(run_id, kPredictedAs, stored.predicted));
    }
    if (stored.digests > 0) return {};  // the routing shows in the events
    PIPER_ASSIGN(const Run run, file.readRun(stored.measured));
    const std::optional<RoutingLoad> routing = measuredRouting(run, plan);
    if (!routing) return {};
    Plan routed = plan;
    routed.routing_load = *routing;
    PIPER_ASSIGN(stored.predicted_routed, storePrediction(file, routed, modelled + " routed"));
    return {};
}

Status PlanRun::complete(Workspace& file, std::int64_t run_id, StoredRun& stored) {
    PIPER_TRY(file.setNote(run_id, kJobNote, directory()));
    // What ended the job from outside (a lost node, Slurm's time limit) no rank could record.
    const Result<JobStatus> last = m_job->status();
    if (last.ok() && isFinal(last->state) && last->state != JobState::Finished &&
        stored.reason.find(last->message) == std::string::npos) {
        stored.reason += (stored.reason.empty() ? "" : "; the job said: ") + last->message;
        PIPER_TRY(file.endRun(run_id, stored.outcome, stored.reason));
    }
    return storePredictions(file, run_id, stored);
}

Result<StoredRun> PlanRun::collect(const std::filesystem::path& workspace,
                                   const std::string& run_name, const CollectOptions& options) {
    PIPER_ASSIGN(const std::optional<Run> before, digestOf(workspace, run_name, directory()));
    if (before) return addEvents(workspace, *before, options);
    std::filesystem::path from = directory();
    if (!m_connection->isLocal()) {
        from = landingPlace(workspace, directory());
        PIPER_ASSIGN(const JobStatus status, m_job->status());
        const bool ended = isFinal(status.state);
        if (!ended) {
            // Files of this moment, and the write-ahead logs beside them, must not stay for a
            // later try that finds others.
            from /= "running";
            clearLandingPlace(from);
        }
        PIPER_TRY(fetchFiles(
            *m_connection, directory(), ended,
            [](const std::string& name) { return isRankFile(name) || name == kStatusFile; }, from,
            options));
    }
    PIPER_ASSIGN(Workspace file, openWithDirectory(workspace));
    PIPER_ASSIGN(const std::string name, file.freeRunName(run_name));
    PIPER_ASSIGN(const CollectedRun collected, collectJob(from, file, name));
    StoredRun stored;
    stored.measured = collected.name;
    stored.outcome = collected.outcome;
    stored.reason = collected.outcome_reason;
    PIPER_TRY(complete(file, collected.run_id, stored));
    PIPER_TRY(file.close());
    if (!m_connection->isLocal()) clearLandingPlace(landingPlace(workspace, directory()));
    return stored;
}

Result<StoredRun> PlanRun::collectDigest(const std::filesystem::path& workspace,
                                         const std::string& run_name,
                                         const CollectOptions& options) {
    PIPER_ASSIGN(const JobStatus status, m_job->status());
    if (!isFinal(status.state))
        return fail(ErrorCode::Unsupported, "job {} goes on: its digest is made once it has ended",
                    directory());
    PIPER_ASSIGN(const CommandResult made,
                 m_connection->run({"sh", "-c", makeDigestScript(directory())}, options.stop));
    if (made.exit_status != 0)
        return fail(ErrorCode::Unsupported, "{} makes no digest of {}: {}", m_connection->label(),
                    directory(), displayLine(made.error_output, 400));
    const std::filesystem::path place = landingPlace(workspace, directory());
    PIPER_TRY(fetchFiles(
        *m_connection, directory(), true,
        [](const std::string& name) { return name == kDigestFile; }, place, options));
    PIPER_ASSIGN(Workspace digest, Workspace::open(place / kDigestFile));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, digest.runs());
    if (runs.size() != 1)
        return fail(ErrorCode::InvalidInput, "{} runs instead of one", runs.size())
            .at(digest.path());
    PIPER_ASSIGN(const Run header, digest.readWithoutEvents(runs.front().name));
    PIPER_ASSIGN(Workspace file, openWithDirectory(workspace));
    StoredRun stored;
    stored.outcome = header.outcome;
    stored.reason = header.outcome_reason;
    stored.digests = header.numDigests();
    PIPER_ASSIGN(stored.measured, file.freeRunName(run_name));
    PIPER_ASSIGN(const std::int64_t id, file.copyRun(digest, runs.front().name, stored.measured));
    if (!digest.damage().empty()) {  // the job's own files are the better source
        PIPER_TRY(file.removeRun(stored.measured));
        clearLandingPlace(place);
        return fail(ErrorCode::Unsupported, "the digest of {} is damaged: {}", directory(),
                    digest.damage().front());
    }
    if (stored.digests > 0)
        PIPER_TRY(file.setNote(id, kDigestNote,
                               fmt::format("of {} of {} ranks most events are not here yet: fetch "
                                           "job {}",
                                           stored.digests, header.ranks.size(), directory())));
    PIPER_TRY(complete(file, id, stored));
    PIPER_TRY(file.close());
    clearLandingPlace(place);
    return stored;
}

Result<StoredRun> PlanRun::addEvents(const std::filesystem::path& workspace, const Run& digest,
                                     const CollectOptions& options) {
    StoredRun stored;
    stored.measured = digest.name;
    stored.outcome = digest.outcome;
    stored.reason = digest.outcome_reason;
    if (const auto note = digest.notes.find(std::string(kPredictedAs)); note != digest.notes.end())
        stored.predicted = note->second;
    std::set<std::string> lacking;
    for (const RankTimeline& rank : digest.ranks)
        if (rank.isDigest()) lacking.insert(rankFile({}, rank.rank).string());
    std::filesystem::path from = directory();
    if (!m_connection->isLocal()) {
        from = landingPlace(workspace, directory());
        PIPER_TRY(fetchFiles(
            *m_connection, directory(), true,
            [&](const std::string& name) {
                return isRankFile(name) &&
                       lacking.contains(name.substr(0, name.find(".piper") + 6));
            },
            from, options));
    }
    PIPER_ASSIGN(Workspace file, Workspace::open(workspace, Workspace::Mode::ReadWrite));
    std::vector<std::string> problems;
    for (const RankTimeline& rank : digest.ranks) {
        if (!rank.isDigest()) continue;
        PIPER_ASSIGN(const RankTimeline whole,
                     readRank(rankFile(from, rank.rank), rank.rank, problems));
        PIPER_TRY(file.replaceRank(digest.name, whole));
    }
    PIPER_ASSIGN(const std::int64_t id, idOfRun(file, digest.name));
    PIPER_TRY(file.removeNote(id, kDigestNote));
    PIPER_TRY(storePredictions(file, id, stored));
    PIPER_TRY(file.close());
    if (!m_connection->isLocal()) clearLandingPlace(from);
    return stored;
}

}  // namespace piper
