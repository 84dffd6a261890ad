// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <set>

#include "app/command_line/command_line.h"
#include "app/common/sessions.h"
#include "app/piperctl/command.h"
#include "app/piperctl/follow.h"
#include "core/base/json.h"
#include "sessions/job_directory.h"
#include "sessions/job_report.h"

namespace piper::app {
namespace {

struct JobOptions {
    std::string session = "local";
    std::string job, output, name;
    bool all = false;
    bool digest = false;
    std::set<std::int32_t> ranks;
};

struct OpenedJob {
    std::shared_ptr<Session> session;
    PlanRun run;
};

/// "JOB" is a directory, or the name of one under the session's root of jobs.
Result<OpenedJob> openJob(const JobOptions& options) {
    PIPER_ASSIGN(std::shared_ptr<Session> session, openSession(options.session));
    std::string directory = options.job;
    while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
    if (directory.find('/') == std::string::npos) {
        PIPER_ASSIGN(const std::string root, session->jobsRoot());
        directory = root + "/" + directory;
    } else if (session->config().isLocal()) {
        directory = std::filesystem::absolute(directory).string();
    }
    Result<PlanRun> run = PlanRun::attach(session->connection(), directory, options.session);
    if (run.ok()) return OpenedJob{std::move(session), *std::move(run)};
    Error error = std::move(run).error();
    if (error.code == ErrorCode::NotFound)
        error.hint = fmt::format(
            "'piperctl jobs --session {}' lists those of this session, 'piperctl jobs --all' of "
            "every "
            "one",
            options.session);
    return error;
}

std::string runName(const JobOptions& options, const PlanRun& run) {
    return options.name.empty() ? jobName(run.directory()) : options.name;
}

/// Jobs of one session into the document and the table.
Status addJobs(const std::string& name, Json& document, TextTable& table) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(name));
    PIPER_ASSIGN(const std::string root, session->jobsRoot());
    PIPER_ASSIGN(const std::vector<JobSummary> jobs, summarizeJobs(session->connection(), root));
    for (const JobSummary& job : jobs) {
        const JobStatus& s = job.status;
        document["jobs"].push_back({{"session", name},
                                    {"directory", job.directory},
                                    {"state", toText(s.state)},
                                    {"step", s.step},
                                    {"steps", s.steps},
                                    {"loss", s.loss},
                                    {"rank_peak_bytes", s.rank_peak_bytes},
                                    {"hottest_over_mean", s.load.hottestOverMean()},
                                    {"message", s.message}});
        table.add({job.directory, name, std::string(toText(s.state)),
                   fmt::format("{}/{}", s.step, s.steps), fmt::format("{:.4f}", s.loss),
                   s.message});
    }
    return {};
}

Outcome runJobs(const JobOptions& options, bool json) {
    std::vector<std::string> names = {options.session};
    if (options.all) {
        names.clear();
        PIPER_ASSIGN(const auto sessions, SessionStore(sessionsFile()).list());
        for (const SessionConfig& session : sessions) names.push_back(session.name);
    }
    Json document = {{"jobs", Json::array()}};
    TextTable table({"job", "session", "state", "step", "loss", "message"});
    int status = 0;
    for (const std::string& name : names) {
        const Status added = addJobs(name, document, table);
        if (added.ok()) continue;
        if (!options.all) return added.error();
        // One host that is away does not hide the others.
        document["unreachable"].push_back({{"session", name}, {"reason", added.error().text()}});
        status = printError(added.error());
    }
    if (json)
        printJson(document);
    else
        fmt::print("{}", table.text());
    return status;
}

Outcome runAttach(const JobOptions& options, bool json) {
    PIPER_ASSIGN(OpenedJob job, openJob(options));
    PIPER_ASSIGN(const JobStatus status, follow(job.run));
    if (options.output.empty()) {
        if (status.state == JobState::Failed) printMessage("piperctl: " + status.message);
        return statusOf(status);
    }
    return collectInto(job.run, status, options.output, runName(options, job.run), json);
}

Outcome runCancel(const JobOptions& options) {
    PIPER_ASSIGN(OpenedJob job, openJob(options));
    const Result<JobStatus> before = job.run.status();
    PIPER_TRY(job.run.cancel());
    if (before.ok() && isFinal(before->state))
        printMessage(fmt::format("job {} had ended already: {}", job.run.directory(),
                                 toText(before->state)));
    return 0;
}

Outcome runFetch(const JobOptions& options, bool json) {
    PIPER_ASSIGN(OpenedJob job, openJob(options));
    PIPER_ASSIGN(const JobStatus status, job.run.status());
    return collectInto(job.run, status, options.output, runName(options, job.run), json,
                       {options.digest, options.ranks});
}

void addSessionOption(CLI::App& app, JobOptions& options) {
    app.add_option("--session", options.session, "Session to use")->capture_default_str();
}

}  // namespace

void addJobs(CommandSet& commands) {
    const auto jobs = std::make_shared<JobOptions>();
    CLI::App& jobs_app =
        commands.add("jobs", "Jobs of a session, also those of earlier windows",
                     [jobs, &commands] { return runJobs(*jobs, commands.json()); });
    addSessionOption(jobs_app, *jobs);
    jobs_app.add_flag("--all", jobs->all, "Of every session");

    const auto attach = std::make_shared<JobOptions>();
    CLI::App& attach_app =
        commands.add("attach", "Follow a job that runs already",
                     [attach, &commands] { return runAttach(*attach, commands.json()); });
    attach_app.add_option("job", attach->job, "Job directory or name")->required();
    attach_app.add_option("-o,--output", attach->output,
                          "Collect into this workspace file at the end");
    addSessionOption(attach_app, *attach);

    const auto cancel = std::make_shared<JobOptions>();
    CLI::App& cancel_app =
        commands.add("cancel", "End every rank of a job", [cancel] { return runCancel(*cancel); });
    cancel_app.add_option("job", cancel->job, "Job directory or name")->required();
    addSessionOption(cancel_app, *cancel);

    const auto fetch = std::make_shared<JobOptions>();
    CLI::App& fetch_app =
        commands.add("fetch", "Collect what a job recorded so far",
                     [fetch, &commands] { return runFetch(*fetch, commands.json()); });
    fetch_app.add_option("job", fetch->job, "Job directory or name")->required();
    fetch_app.add_option("-o,--output", fetch->output, "Workspace file")->required();
    fetch_app.add_option("--name", fetch->name, "Name of the run in it");
    fetch_app.add_flag(
        "--digest", fetch->digest,
        "Of a job that has ended: statistics and a coarse timeline, in seconds; fetch "
        "without it brings the events later");
    fetch_app
        .add_option("--rank", fetch->ranks,
                    "Of a job that has ended: its digest and the events of these ranks only (0,3)")
        ->delimiter(',')
        ->check(fromZero())
        ->excludes("--digest");
    addSessionOption(fetch_app, *fetch);
}

}  // namespace piper::app
