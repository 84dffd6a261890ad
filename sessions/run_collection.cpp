// SPDX-License-Identifier: Apache-2.0
// What PlanRun brings from the host of a job and stores in the user's workspace file.
#include <algorithm>

#include "collectors/live/collect.h"
#include "collectors/live/live_recorder.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/predict/predict.h"
#include "core/resources/measured_routing.h"
#include "sessions/directory_turn.h"
#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/job_directory.h"
#include "sessions/plan_run.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

constexpr std::string_view kJobNote = "job";
constexpr std::string_view kDigestNote = "digest";
constexpr std::string_view kPredictedAs = "predicted_as";

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

Status storePredictions(Workspace& file, std::int64_t run_id, const Plan& plan, StoredRun& stored) {
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
    Result<std::string> predicted = storePrediction(file, routed, modelled + " routed");
    if (!predicted.ok()) return file.setNote(run_id, "prediction_routed", predicted.error().text());
    stored.predicted_routed = std::move(predicted).value();
    return {};
}

/// Nothing when the file has no run of that name.
Result<std::optional<RunSummary>> findRun(Workspace& file, const std::string& name) {
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    for (const RunSummary& run : runs)
        if (run.name == name) return std::optional<RunSummary>(run);
    return std::optional<RunSummary>();
}

/// The run of that name, without its events, when it is what is here of a digest of this job.
Result<std::optional<Run>> digestOf(const std::filesystem::path& workspace, const std::string& name,
                                    const std::string& job_directory) {
    std::error_code ignored;
    if (!std::filesystem::exists(workspace, ignored)) return std::optional<Run>();
    PIPER_ASSIGN(Workspace file, Workspace::open(workspace));
    PIPER_ASSIGN(const std::optional<RunSummary> found, findRun(file, name));
    if (!found) return std::optional<Run>();
    PIPER_ASSIGN(Run run, file.readWithoutEvents(name));
    const auto job = run.notes.find(std::string(kJobNote));
    if (job == run.notes.end() || job->second != job_directory ||
        !run.notes.contains(std::string(kDigestNote)))
        return std::optional<Run>();
    return std::optional<Run>(std::move(run));
}

Status noteDigest(Workspace& file, std::int64_t run_id, std::int64_t lacking, std::size_t ranks,
                  const std::string& job_directory) {
    return file.setNote(run_id, kDigestNote,
                        fmt::format("of {} of {} ranks most events are not here yet: fetch job {}",
                                    lacking, ranks, job_directory));
}

/// Those of a digest's ranks that lack events and are wanted. Errors: InvalidInput for a rank that
/// the run does not have.
Result<std::set<RankId>> wantedOf(const Run& digest, const std::set<std::int32_t>& wanted) {
    std::set<RankId> out;
    std::set<std::int32_t> known;
    for (const RankTimeline& rank : digest.ranks) {
        known.insert(rank.rank.value);
        if (rank.isDigest() && (wanted.empty() || wanted.contains(rank.rank.value)))
            out.insert(rank.rank);
    }
    for (const std::int32_t rank : wanted)
        if (!known.contains(rank))
            return fail(ErrorCode::InvalidInput,
                        "run '{}' has no records of rank {}; it has {} to {}", digest.name, rank,
                        known.empty() ? 0 : *known.begin(), known.empty() ? 0 : *known.rbegin());
    return out;
}

/// The name of a job's digest in its directory.
std::string digestName() {
    return digestFile({}).string();
}

/// Lets the host make the digest of a job that has ended, once. Exit status 4: the job is of a
/// version that knew none.
std::string makeDigestScript(const std::string& directory) {
    return fmt::format(
        "cd {} || exit 4\n[ ! -s {} ] || exit 0\n"
        "[ -f {} ] || {{ echo 'its launcher left no script for it' >&2; exit 4; }}\n"
        "sh {} > /dev/null\n",
        shellQuote(directory), digestName(), kDigestScriptFile, kDigestScriptFile);
}

}  // namespace

Result<PlanRun::Surroundings> PlanRun::surroundings() {
    PIPER_ASSIGN(const std::string plan_text,
                 m_connection->readFile(directory() + "/" + std::string(kPlanFile), 64 << 20));
    Surroundings out;
    PIPER_ASSIGN(out.plan, readPlanText(plan_text, kPlanFile));
    const Result<std::string> record =
        m_connection->readFile(directory() + "/" + std::string(kLauncherRecordFile), 1 << 20);
    if (record.ok())
        if (Result<JobRecord> job = readJobRecord(*record, kLauncherRecordFile); job.ok())
            out.launcher = job->launcher;
    if (Result<JobStatus> last = m_job->status(); last.ok()) out.last = *std::move(last);
    return out;
}

Status PlanRun::complete(Workspace& file, std::int64_t run_id, const Surroundings& job,
                         StoredRun& stored) const {
    const auto add = [&]() -> Status {
        PIPER_TRY(file.setNote(run_id, kJobNote, directory()));
        if (!m_session.empty()) PIPER_TRY(file.setNote(run_id, kSessionNote, m_session));
        if (!job.launcher.empty()) PIPER_TRY(file.setNote(run_id, kLauncherNote, job.launcher));
        if (job.last && job.last->steps > 0)
            PIPER_TRY(file.setNote(run_id, kStepsNote, fmt::format("{}", job.last->steps)));
        // What ended the job from outside (a lost node, Slurm's time limit) no rank could record.
        const std::optional<JobStatus>& last = job.last;
        if (last && isFinal(last->state) && last->state != JobState::Finished &&
            stored.reason.find(last->message) == std::string::npos) {
            stored.reason += (stored.reason.empty() ? "" : "; the job said: ") + last->message;
            PIPER_TRY(file.endRun(run_id, stored.outcome, stored.reason));
        }
        return storePredictions(file, run_id, job.plan, stored);
    };
    Status added = add();
    if (added.ok()) return added;
    (void)file.removeRun(stored.measured);
    if (!stored.predicted.empty()) (void)file.removeRun(stored.predicted);
    return added;
}

Result<StoredRun> PlanRun::collect(const std::filesystem::path& workspace,
                                   const std::string& run_name, const CollectOptions& options) {
    std::optional<DirectoryTurn> fetching;
    if (!m_connection->isLocal() || !options.ranks.empty()) {
        PIPER_ASSIGN(DirectoryTurn turn,
                     DirectoryTurn::take(landingPlace(workspace, directory()), options.stop));
        fetching.emplace(std::move(turn));
    }
    PIPER_ASSIGN(std::optional<Run> digest, digestOf(workspace, run_name, directory()));
    if (!digest && !options.ranks.empty()) {
        PIPER_ASSIGN(StoredRun stored, storeDigest(workspace, run_name, options));
        if (stored.digests == 0) {
            clearLandingPlace(landingPlace(workspace, directory()));
            return stored;
        }
        PIPER_ASSIGN(digest, digestOf(workspace, stored.measured, directory()));
    }
    return digest ? addEvents(workspace, *digest, options)
                  : collectWhole(workspace, run_name, options);
}

Result<StoredRun> PlanRun::collectWhole(const std::filesystem::path& workspace,
                                        const std::string& run_name,
                                        const CollectOptions& options) {
    std::filesystem::path from = directory();
    PIPER_ASSIGN(const Surroundings job, surroundings());
    if (!m_connection->isLocal()) {
        from = landingPlace(workspace, directory());
        const bool ended = job.last && isFinal(job.last->state);
        if (!ended) {
            // Files of this moment, and the write-ahead logs beside them, must not stay for a
            // later try that finds others.
            from /= "running";
            std::error_code ignored;
            std::filesystem::remove_all(from, ignored);
        }
        PIPER_TRY(fetchFiles(
            *m_connection, directory(), ended,
            [](const std::string& name) { return isRankFile(name) || name == kStatusFile; }, from,
            options));
    }
    PIPER_ASSIGN(const DirectoryTurn storing,
                 DirectoryTurn::take(workspace.parent_path(), options.stop));
    PIPER_ASSIGN(Workspace file, Workspace::openOrCreate(workspace));
    PIPER_ASSIGN(const std::string name, file.freeRunName(run_name));
    PIPER_ASSIGN(const CollectedRun collected, collectJob(from, file, name));
    StoredRun stored;
    stored.measured = collected.name;
    stored.outcome = collected.outcome;
    stored.reason = collected.outcome_reason;
    PIPER_TRY(complete(file, collected.run_id, job, stored));
    PIPER_TRY(file.close());
    if (!m_connection->isLocal()) clearLandingPlace(landingPlace(workspace, directory()));
    return stored;
}

Result<StoredRun> PlanRun::collectDigest(const std::filesystem::path& workspace,
                                         const std::string& run_name,
                                         const CollectOptions& options) {
    const std::filesystem::path place = landingPlace(workspace, directory());
    PIPER_ASSIGN(const DirectoryTurn fetching, DirectoryTurn::take(place, options.stop));
    PIPER_ASSIGN(StoredRun stored, storeDigest(workspace, run_name, options));
    clearLandingPlace(place);
    return stored;
}

Result<StoredRun> PlanRun::storeDigest(const std::filesystem::path& workspace,
                                       const std::string& run_name, const CollectOptions& options) {
    PIPER_ASSIGN(const Surroundings job, surroundings());
    if (!job.last || !isFinal(job.last->state))
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
        [](const std::string& name) { return name == digestName(); }, place, options));
    PIPER_ASSIGN(Workspace digest, Workspace::open(digestFile(place)));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, digest.runs());
    if (runs.size() != 1)
        return fail(ErrorCode::InvalidInput, "{} runs instead of one", runs.size())
            .at(digest.path());
    PIPER_ASSIGN(Run header, digest.readWithoutEvents(runs.front().name));
    header.name = run_name;
    if (const auto wanted = wantedOf(header, options.ranks); !wanted.ok()) return wanted.error();
    PIPER_ASSIGN(const DirectoryTurn storing,
                 DirectoryTurn::take(workspace.parent_path(), options.stop));
    PIPER_ASSIGN(Workspace file, Workspace::openOrCreate(workspace));
    StoredRun stored;
    stored.outcome = header.outcome;
    stored.reason = header.outcome_reason;
    stored.digests = header.numDigests();
    PIPER_ASSIGN(stored.measured, file.freeRunName(run_name));
    PIPER_ASSIGN(const std::int64_t id, file.copyRun(digest, runs.front().name, stored.measured));
    if (!digest.damage().empty()) {  // the job's own files are the better source
        PIPER_TRY(file.removeRun(stored.measured));
        std::error_code ignored;
        std::filesystem::remove(digestFile(place), ignored);
        return fail(ErrorCode::Unsupported, "the digest of {} is damaged: {}", directory(),
                    digest.damage().front());
    }
    if (stored.digests > 0)
        PIPER_TRY(noteDigest(file, id, stored.digests, header.ranks.size(), directory()));
    PIPER_TRY(complete(file, id, job, stored));
    PIPER_TRY(file.close());
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
    PIPER_ASSIGN(const std::set<RankId> wanted, wantedOf(digest, options.ranks));
    stored.digests = digest.numDigests() - std::ssize(wanted);
    std::set<std::string> files;
    for (const RankId rank : wanted) files.insert(rankFile({}, rank).string());
    PIPER_ASSIGN(const Surroundings job, surroundings());
    std::filesystem::path from = directory();
    if (!m_connection->isLocal()) {
        from = landingPlace(workspace, directory());
        PIPER_TRY(fetchFiles(
            *m_connection, directory(), true,
            [&](const std::string& name) {
                return isRankFile(name) && files.contains(name.substr(0, name.find(".piper") + 6));
            },
            from, options));
    }
    PIPER_ASSIGN(const DirectoryTurn storing,
                 DirectoryTurn::take(workspace.parent_path(), options.stop));
    PIPER_ASSIGN(Workspace file, Workspace::open(workspace, Workspace::Mode::ReadWrite));
    PIPER_ASSIGN(const std::optional<RunSummary> run, findRun(file, digest.name));
    if (!run) return fail(ErrorCode::NotFound, "no run '{}' any more", digest.name).at(file.path());
    std::vector<std::string> problems;
    for (const RankId rank : wanted) {
        PIPER_ASSIGN(const RankTimeline whole, readRank(rankFile(from, rank), rank, problems));
        PIPER_TRY(file.replaceRank(digest.name, whole));
    }
    if (stored.digests > 0) {
        PIPER_TRY(noteDigest(file, run->id, stored.digests, digest.ranks.size(), directory()));
    } else {
        PIPER_TRY(storePredictions(file, run->id, job.plan, stored));
        PIPER_TRY(file.removeNote(run->id, kDigestNote));  // last: until then another try ends it
    }
    PIPER_TRY(file.close());
    clearLandingPlace(landingPlace(workspace, directory()));
    return stored;
}

}  // namespace piper
