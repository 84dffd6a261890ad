// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <map>
#include <memory>

#include "app/command_line/command_line.h"
#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/follow.h"
#include "app/piperctl/host_report.h"
#include "core/base/json.h"
#include "sessions/job_report.h"

namespace piper::app {
namespace {

constexpr const char* kLocal = "local";

struct SessionOptions {
    std::string action;
    std::map<std::string, std::vector<CLI::Option*>> own;  ///< options of one action only
    SessionConfig session;
    std::string output;
    std::int64_t nodes = 0;
    bool jobs = false;
};

SessionStore store() {
    return SessionStore(sessionsFile());
}

Outcome runAdd(const SessionOptions& options) {
    SessionConfig session = options.session;
    if (session.name == kLocal)
        return fail(ErrorCode::InvalidInput,
                    "session add needs a name of yours ('{}' is this machine): "
                    "piperctl session add NAME --host [USER@]HOST",
                    kLocal);
    if (!session.ssh_config.empty())  // read later, from wherever piperctl is started
        session.ssh_config = std::filesystem::absolute(session.ssh_config).string();
    PIPER_TRY(store().add(session));
    fmt::print("session '{}' is {}; look at it: piperctl session test {}\n", session.name,
               session.host, session.name);
    return 0;
}

/// Errors: InvalidInput for an option that this action does not read.
Status checkActionOptions(const SessionOptions& options) {
    for (const auto& [action, own] : options.own)
        for (const CLI::Option* option : own)
            if (action != options.action && option->count() > 0)
                return fail(ErrorCode::InvalidInput, "{} is for session {}, not for session {}",
                            option->get_name(), action, options.action);
    return {};
}

Outcome runList(bool json) {
    PIPER_ASSIGN(const std::vector<SessionConfig> sessions, store().list());
    Json document = {{"sessions", Json::array()}};
    TextTable table({"session", "host", "launcher"});
    for (const SessionConfig& s : sessions) {
        Json entry = sessionJson(s);
        entry["kind"] = s.isLocal() ? "local" : "ssh";
        document["sessions"].push_back(std::move(entry));
        table.add({s.name, s.isLocal() ? "this machine" : s.host, s.launcher});
    }
    if (json)
        printJson(document);
    else
        fmt::print("{}", table.text());
    return 0;
}

/// Connects and runs one command there: does the way work?
Outcome runTest(const std::string& name, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(name));
    PIPER_ASSIGN(const SessionTest test, session->test());
    for (const std::string& remark : session->remarks()) printMessage("note: " + remark);
    if (json)
        printJson({{"session", name},
                   {"system", test.system},
                   {"directory", test.directory},
                   {"remarks", session->remarks()}});
    else
        fmt::print("{}: {}\nour directory: {}\n", name, test.system, test.directory);
    return 0;
}

/// Everything a run needs: the worker is there, and the jobs that go on are named.
Outcome runOpen(const std::string& name, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(name));
    PIPER_ASSIGN(const std::string worker,
                 session->worker(siblingProgram("piper-worker"), transferProgress("worker")));
    PIPER_ASSIGN(const std::string root, session->jobsRoot());
    PIPER_ASSIGN(const std::vector<JobSummary> jobs, summarizeJobs(session->connection(), root));
    Json going = Json::array();
    std::string lines;
    for (const JobSummary& job : jobs) {
        if (isFinal(job.status.state)) continue;
        going.push_back(job.directory);
        lines += fmt::format("  {} {} step {}/{}\n", job.directory, toText(job.status.state),
                             job.status.step, job.status.steps);
    }
    if (json)
        printJson({{"session", name}, {"worker", worker}, {"jobs", jobs.size()}, {"going", going}});
    else
        fmt::print("{}: worker {}\n{} jobs, {} of them go on\n{}", name, worker, jobs.size(),
                   going.size(), lines);
    return 0;
}

Outcome runDiscover(const SessionOptions& options, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session.name));
    PIPER_ASSIGN(const HostFacts facts, discoverHost(session->connection()));
    const Result<ClusterSpec> cluster = proposeCluster(facts, options.nodes);
    if (!options.output.empty()) {
        if (!cluster.ok()) return cluster.error();
        PIPER_TRY(writeTextFile(options.output, writeCluster(*cluster).dump(2) + "\n"));
    }
    if (json) {
        Json document = hostFactsJson(facts);
        if (cluster.ok())
            document["cluster"] = writeCluster(*cluster);
        else
            document["missing"].push_back("cluster: " + cluster.error().message);
        printJson(document);
        return 0;
    }
    fmt::print("{}", hostFactsText(facts));
    if (cluster.ok())
        fmt::print("cluster    {}{}\n", cluster->name,
                   options.output.empty() ? " (-o FILE writes it)" : " in " + options.output);
    else
        fmt::print("cluster    {}\n", cluster.error().text());
    return 0;
}

Outcome runClean(const SessionOptions& options) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session.name));
    PIPER_ASSIGN(const int left, session->clean(options.jobs));
    if (left > 0) printMessage(fmt::format("{} jobs go on and were left", left));
    return 0;
}

Outcome runAction(const SessionOptions& options, bool json) {
    const std::string& name = options.session.name;
    PIPER_TRY(checkActionOptions(options));
    if (options.action == "list") return runList(json);
    if (options.action == "add") return runAdd(options);
    if (options.action == "test") return runTest(name, json);
    if (options.action == "open") return runOpen(name, json);
    if (options.action == "discover") return runDiscover(options, json);
    if (options.action == "clean") return runClean(options);
    PIPER_TRY(store().forget(name));
    return 0;
}

std::vector<CLI::Option*> addHostOptions(CLI::App& app, SessionConfig& s) {
    return {
        app.add_option("--host", s.host, "add: [USER@]HOST[:PORT] or a Host of ~/.ssh/config"),
        app.add_option("--config", s.ssh_config, "add: this file instead of ~/.ssh/config"),
        app.add_option("--directory", s.directory,
                       "add: ours on the host; default ~/.local/state/piper-workbench"),
        app.add_option("--worker", s.worker,
                       "add: a worker that is on the host; default: ours is sent"),
        app.add_option("--launcher", s.launcher, "add: mpirun, srun or sbatch")
            ->capture_default_str(),
        app.add_option("--hosts", s.launch.hosts, "add: hosts of mpirun, HOST:RANKS")
            ->delimiter(','),
        app.add_option("--interface", s.launch.network_interface,
                       "add: network interface of MPI between the hosts"),
        app.add_option("--account", s.launch.account, "add: of srun and sbatch"),
        app.add_option("--partition", s.launch.partition, "add: of srun and sbatch"),
        app.add_option("--time", s.launch.time_limit, "add: time limit of Slurm, HH:MM:SS"),
        app.add_option("--allocation", s.launch.allocation, "add: job whose nodes srun uses"),
        app.add_option("--line", s.launch.extra_lines,
                       "add: a line of your own before the ranks start (module load ..., #SBATCH "
                       "...); may be repeated")
            ->allow_extra_args(false)};
}

}  // namespace

void addSession(CommandSet& commands) {
    const auto options = std::make_shared<SessionOptions>();
    options->session.name = kLocal;
    CLI::App& app =
        commands.add("session", "Clusters over SSH: add, test, open, list, discover, clean, forget",
                     [options, &commands] { return runAction(*options, commands.json()); });
    app.add_option("action", options->action,
                   "add, test (connect), open (send the worker), list, discover, clean (remove the "
                   "worker), forget")
        ->required()
        ->check(oneOf({"add", "test", "open", "list", "discover", "clean", "forget"}));
    app.add_option("name", options->session.name, "Session")->capture_default_str();
    options->own["add"] = addHostOptions(app, options->session);
    options->own["discover"] = {
        app.add_option("-o,--output", options->output, "discover: write this cluster file"),
        app.add_option("--nodes", options->nodes, "discover: nodes like this one")
            ->check(CLI::Range(1, 1 << 20))};
    options->own["clean"] = {
        app.add_flag("--jobs", options->jobs, "clean: the directories of ended jobs too")};
}

}  // namespace piper::app
