// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/command_line.h"
#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/follow.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct RunOptions {
    std::string plan;
    std::string session = "local";
    std::string output;
    std::string name;
    std::string data;
    std::int64_t steps = 10;
    std::int64_t seed = 1;
    bool detach = false;
    bool preview = false;
};

Result<PlanRunOptions> planRunOptions(Session& session, const RunOptions& options) {
    PlanRunOptions out;
    PIPER_ASSIGN(out.worker,
                 session.worker(siblingProgram("piper-worker"), transferProgress("worker")));
    PIPER_ASSIGN(out.jobs_root, session.jobsRoot());
    out.name = options.name;
    out.steps = options.steps;
    out.seed = options.seed;
    out.data = options.data;
    out.launcher = session.config().launcher;
    out.launch = session.config().launch;
    out.session = session.config().name;
    return out;
}

Outcome printPreview(const LaunchPreview& preview, bool json) {
    if (json) {
        printJson({{"command", preview.command},
                   {"script", preview.script},
                   {"rank_map", preview.rank_map},
                   {"queue", preview.queue},
                   {"warnings", preview.warnings}});
        return 0;
    }
    std::string command;
    for (const std::string& word : preview.command) command += (command.empty() ? "" : " ") + word;
    fmt::print("{}\n\n{}\n", command, preview.script);
    for (const std::string& line : preview.rank_map) fmt::print("{}\n", line);
    if (!preview.queue.empty()) printMessage(preview.queue);
    for (const std::string& warning : preview.warnings) printMessage("warning: " + warning);
    return 0;
}

Outcome runRun(RunOptions options, bool json) {
    PIPER_ASSIGN(const Plan plan, loadPlan(options.plan));
    if (options.name.empty()) options.name = "measured";
    if (options.output.empty())
        options.output = std::filesystem::path(options.plan).stem().string() + ".piper";
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session));
    PIPER_ASSIGN(const PlanRunOptions run_options, planRunOptions(*session, options));
    if (options.preview) {
        PIPER_ASSIGN(const LaunchPreview preview,
                     PlanRun::preview(session->connection(), plan, run_options));
        return printPreview(preview, json);
    }
    PIPER_ASSIGN(PlanRun run, PlanRun::start(session->connection(), plan, run_options));
    printMessage("job " + run.directory());
    if (options.detach) return 0;
    PIPER_ASSIGN(const JobStatus status, follow(run));
    return collectInto(run, status, options.output, options.name, json);
}

}  // namespace

void addRun(CommandSet& commands) {
    const auto options = std::make_shared<RunOptions>();
    CLI::App& app =
        commands.add("run", "Run a plan, collect it beside its prediction",
                     [options, &commands] { return runRun(*options, commands.json()); });
    app.add_option("plan", options->plan, "Plan file")->required();
    app.add_option("--session", options->session, "Session to run it in")->capture_default_str();
    app.add_option("--steps", options->steps, "Optimizer steps")
        ->check(aboveZero())
        ->capture_default_str();
    app.add_option("--data", options->data, "Text file to train on, on the session's host");
    app.add_option("--seed", options->seed, "Of the initial weights and the order of the data")
        ->capture_default_str();
    app.add_option("--name", options->name, "Name of the run");
    app.add_option("-o,--output", options->output, "Workspace file; default: PLAN.piper");
    app.add_flag("--detach", options->detach, "Leave the job running; see attach and fetch");
    app.add_flag("--preview", options->preview,
                 "Show command, script, rank map and warnings; start nothing");
}

}  // namespace piper::app
