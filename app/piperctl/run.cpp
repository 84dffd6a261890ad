// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "sessions/job_directory.h"
#include "sessions/plan_run.h"

namespace piper::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void onInterrupt(int) {
    g_interrupted = 1;
}

struct RunOptions {
    std::string plan;
    std::string session = "local";
    std::string output;
    std::string name;
    std::string data;
    std::int64_t steps = 10;
    std::int64_t seed = 1;
    bool detach = false;
    std::string job;
};

void printProgress(const JobStatus& status) {
    printMessage(fmt::format("{}: step {}/{}  loss {:.4f}  {:.0f} tokens/s", toText(status.state),
                             status.step, status.steps, status.loss, status.tokens_per_second));
}

/// Follows a job to its end; Ctrl-C cancels it. Returns its last status.
Result<JobStatus> follow(PlanRun& run) {
    std::signal(SIGINT, onInterrupt);
    std::int32_t last_step = -1;
    for (;;) {
        PIPER_ASSIGN(const JobStatus status, run.status());
        if (status.step != last_step && status.step > 0) {
            printProgress(status);
            last_step = status.step;
        }
        if (isFinal(status.state)) return status;
        if (g_interrupted != 0) {
            printMessage("stopping every rank ...");
            PIPER_TRY(run.cancel());
            return run.status();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

int statusOf(const JobStatus& status) {
    if (status.state == JobState::Finished) return 0;
    return status.state == JobState::Cancelled ? 130 : 3;
}

Outcome collectInto(PlanRun& run, const JobStatus& status, const RunOptions& options, bool json) {
    PIPER_ASSIGN(const StoredRun collected, run.collect(options.output, options.name));
    if (json) {
        printJson({{"workspace", options.output},
                   {"measured", collected.measured},
                   {"predicted", collected.predicted},
                   {"predicted_routed", collected.predicted_routed},
                   {"outcome", toText(collected.outcome)},
                   {"reason", collected.reason},
                   {"steps", status.step},
                   {"loss", status.loss},
                   {"job", run.directory()}});
    } else {
        fmt::print(
            "{}: run '{}' in {}{}\n", toText(collected.outcome), collected.measured, options.output,
            collected.predicted.empty() ? "" : ", its prediction as '" + collected.predicted + "'");
    }
    if (status.state != JobState::Finished) {
        printMessage(fmt::format("piperctl: {}: {}", toText(status.state), status.message));
        if (collected.reason != status.message) printMessage("piperctl: " + collected.reason);
    }
    return statusOf(status);
}

Outcome runRun(RunOptions options, bool json) {
    PIPER_ASSIGN(const Plan plan, loadPlan(options.plan));
    if (options.name.empty()) options.name = "measured";
    if (options.output.empty())
        options.output = std::filesystem::path(options.plan).stem().string() + ".piper";
    PIPER_ASSIGN(const auto connection, openSession(options.session));
    PlanRunOptions run_options;
    run_options.worker = siblingProgram("piper-worker").string();
    run_options.jobs_root = localJobsRoot().string();
    run_options.name = options.name;
    run_options.steps = options.steps;
    run_options.seed = options.seed;
    run_options.data = options.data;
    PIPER_ASSIGN(PlanRun run, PlanRun::start(*connection, plan, run_options));
    printMessage("job " + run.directory());
    if (options.detach) return 0;
    PIPER_ASSIGN(const JobStatus status, follow(run));
    return collectInto(run, status, options, json);
}

Outcome runJobs(const RunOptions& options, bool json) {
    PIPER_ASSIGN(const auto connection, openSession(options.session));
    PIPER_ASSIGN(const std::vector<std::string> jobs,
                 listJobs(*connection, localJobsRoot().string()));
    Json document = {{"jobs", Json::array()}};
    TextTable table({"job", "state", "step", "loss"});
    for (const std::string& directory : jobs) {
        PIPER_ASSIGN(PlanRun run, PlanRun::attach(*connection, directory));
        PIPER_ASSIGN(const JobStatus s, run.status());
        document["jobs"].push_back({{"directory", directory},
                                    {"state", toText(s.state)},
                                    {"step", s.step},
                                    {"steps", s.steps},
                                    {"loss", s.loss},
                                    {"message", s.message}});
        table.add({directory, std::string(toText(s.state)), fmt::format("{}/{}", s.step, s.steps),
                   fmt::format("{:.4f}", s.loss)});
    }
    if (json)
        printJson(document);
    else
        fmt::print("{}", table.text());
    return 0;
}

/// "JOB" is a directory, or the name of one under the jobs root.
std::string jobDirectory(const std::string& job) {
    return job.find('/') != std::string::npos ? job : (localJobsRoot() / job).string();
}

Outcome runAttach(RunOptions options, bool json) {
    PIPER_ASSIGN(const auto connection, openSession(options.session));
    PIPER_ASSIGN(PlanRun run, PlanRun::attach(*connection, jobDirectory(options.job)));
    PIPER_ASSIGN(const JobStatus status, follow(run));
    if (options.output.empty()) return statusOf(status);
    if (options.name.empty()) options.name = std::filesystem::path(options.job).filename().string();
    return collectInto(run, status, options, json);
}

Outcome runCancel(const RunOptions& options) {
    PIPER_ASSIGN(const auto connection, openSession(options.session));
    PIPER_ASSIGN(PlanRun run, PlanRun::attach(*connection, jobDirectory(options.job)));
    PIPER_TRY(run.cancel());
    return 0;
}

Outcome runFetch(RunOptions options, bool json) {
    PIPER_ASSIGN(const auto connection, openSession(options.session));
    PIPER_ASSIGN(PlanRun run, PlanRun::attach(*connection, jobDirectory(options.job)));
    PIPER_ASSIGN(const JobStatus status, run.status());
    if (options.name.empty()) options.name = std::filesystem::path(options.job).filename().string();
    return collectInto(run, status, options, json);
}

void addSessionOption(CLI::App& app, RunOptions& options) {
    app.add_option("--session", options.session, "Session to use")->capture_default_str();
}

void addJobCommands(CommandSet& commands) {
    const auto jobs = std::make_shared<RunOptions>();
    addSessionOption(commands.add("jobs", "Jobs of a session, also those of earlier windows",
                                  [jobs, &commands] { return runJobs(*jobs, commands.json()); }),
                     *jobs);

    const auto attach = std::make_shared<RunOptions>();
    CLI::App& attach_app =
        commands.add("attach", "Follow a job that runs already",
                     [attach, &commands] { return runAttach(*attach, commands.json()); });
    attach_app.add_option("job", attach->job, "Job directory or name")->required();
    attach_app.add_option("-o,--output", attach->output,
                          "Collect into this workspace file at the end");
    addSessionOption(attach_app, *attach);

    const auto cancel = std::make_shared<RunOptions>();
    CLI::App& cancel_app =
        commands.add("cancel", "End every rank of a job", [cancel] { return runCancel(*cancel); });
    cancel_app.add_option("job", cancel->job, "Job directory or name")->required();
    addSessionOption(cancel_app, *cancel);

    const auto fetch = std::make_shared<RunOptions>();
    CLI::App& fetch_app =
        commands.add("fetch", "Collect what a job recorded so far",
                     [fetch, &commands] { return runFetch(*fetch, commands.json()); });
    fetch_app.add_option("job", fetch->job, "Job directory or name")->required();
    fetch_app.add_option("-o,--output", fetch->output, "Workspace file")->required();
    fetch_app.add_option("--name", fetch->name, "Name of the run in it");
    addSessionOption(fetch_app, *fetch);
}

}  // namespace

void addRun(CommandSet& commands) {
    const auto options = std::make_shared<RunOptions>();
    CLI::App& app =
        commands.add("run", "Run a plan, collect it beside its prediction",
                     [options, &commands] { return runRun(*options, commands.json()); });
    app.add_option("plan", options->plan, "Plan file")->required();
    addSessionOption(app, *options);
    app.add_option("--steps", options->steps, "Optimizer steps")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--data", options->data, "Text file to train on");
    app.add_option("--seed", options->seed, "Of the initial weights and the order of the data")
        ->capture_default_str();
    app.add_option("--name", options->name, "Name of the run");
    app.add_option("-o,--output", options->output, "Workspace file; default: PLAN.piper");
    app.add_flag("--detach", options->detach, "Leave the job running; see attach and fetch");
    addJobCommands(commands);
}

}  // namespace piper::app
