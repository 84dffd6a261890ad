// SPDX-License-Identifier: Apache-2.0
// Sessions over SSH as a user has them: the real programs against an sshd on the loopback, the
// worker sent there, ranks under mpirun, the connection cut while they run.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "collectors/store/workspace.h"
#include "sessions/job_directory.h"
#include "sessions/plan_run.h"
#include "sessions/process.h"
#include "tests/app/piperctl/piperctl.h"
#include "tests/sessions/ssh_server.h"
#include "tests/support/processes.h"

namespace piper::test {
namespace {

using ::testing::HasSubstr;

class PiperctlSession : public SshTest {
protected:
    void SetUp() override {
        SshTest::SetUp();
        if (IsSkipped()) return;
        m_server = serverNamedHost();
        ::setenv("PIPER_SESSIONS", path("sessions.json").c_str(), 1);
        ::setenv("HOME", path("home").c_str(), 1);
        add({});
    }
    void TearDown() override {
        for (const pid_t pid : processesNaming(path("there").string())) ::kill(pid, SIGKILL);
    }
    void add(const std::vector<std::string>& more, const std::string& name = "box") {
        std::vector<std::string> words = {"session",
                                          "add",
                                          name,
                                          "--host",
                                          "host",
                                          "--config",
                                          path("config").string(),
                                          "--directory",
                                          path("there").string()};
        words.insert(words.end(), more.begin(), more.end());
        const CommandResult r = piperctl(words);
        ASSERT_EQ(r.exit_status, 0) << r.error_output;
    }
    /// A job of the small example that goes on; its directory.
    std::string startJob(int steps) {
        const CommandResult r = piperctl({"run", example("plans/olmoe-tiny.json"), "--session",
                                          "box", "--steps", std::to_string(steps), "--detach"});
        EXPECT_EQ(r.exit_status, 0) << r.error_output;
        const std::size_t at = r.error_output.find("job /");
        if (at == std::string::npos) return {};
        return r.error_output.substr(at + 4, r.error_output.find('\n', at) - at - 4);
    }
    std::string stateOf(const std::string& job) {
        const Json jobs = document(piperctl({"jobs", "--session", "box", "--json"}));
        for (const Json& one : jobs.at("jobs"))
            if (one.at("directory") == job) return one.at("state");
        return "not listed";
    }

    std::unique_ptr<SshServer> m_server;
};

TEST_F(PiperctlSession, IsAddedTestedDiscoveredAndForgotten) {
    const CommandResult tested = piperctl({"session", "test", "box", "--json"});
    ASSERT_EQ(tested.exit_status, 0) << tested.error_output;
    EXPECT_EQ(document(tested).at("directory"), path("there").string());
    const CommandResult found =
        piperctl({"session", "discover", "box", "--json", "-o", path("cluster.json").string()});
    ASSERT_EQ(found.exit_status, 0) << found.error_output;
    const Json facts = document(found);
    EXPECT_GT(facts.at("processors").get<int>(), 0);
    EXPECT_THAT(facts.at("programs").at("mpirun").get<std::string>(), HasSubstr("Open MPI"));
    EXPECT_EQ(
        piperctl({"capacity", "--cluster", path("cluster.json").string(), "--help"}).exit_status,
        0);
    EXPECT_THAT(piperctl({"session", "list"}).output, HasSubstr("box"));
    ASSERT_EQ(piperctl({"session", "forget", "box"}).exit_status, 0);
    const CommandResult gone = piperctl({"session", "test", "box"});
    EXPECT_EQ(gone.exit_status, 2);
    EXPECT_THAT(gone.error_output, HasSubstr("no session named 'box'; known: local"));
}

TEST_F(PiperctlSession, UnknownHostKeyIsRefusedWithoutATerminal) {
    write("known_hosts", "");
    const CommandResult r = piperctl({"session", "test", "box"});
    EXPECT_EQ(r.exit_status, 1);
    EXPECT_THAT(r.error_output, HasSubstr("SHA256:"));
}

TEST_F(PiperctlSession, WorkerIsSentOnceAndRemovedOnRequest) {
    const CommandResult first = piperctl({"session", "open", "box", "--json"});
    ASSERT_EQ(first.exit_status, 0) << first.error_output;
    const std::string worker = document(first).at("worker");
    EXPECT_THAT(worker, HasSubstr(path("there").string() + "/worker/"));
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat(worker.c_str(), &before), 0);
    EXPECT_EQ(before.st_mode & 0777U, 0700U);
    ASSERT_EQ(piperctl({"session", "open", "box"}).exit_status, 0);
    ASSERT_EQ(::stat(worker.c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino) << "the same version is not sent twice";
    std::ofstream(worker, std::ios::app) << "damaged";
    ASSERT_EQ(piperctl({"session", "open", "box"}).exit_status, 0);
    EXPECT_EQ(std::filesystem::file_size(worker),
              std::filesystem::file_size(program("piper-worker")));
    ASSERT_EQ(piperctl({"session", "clean", "box"}).exit_status, 0);
    EXPECT_FALSE(std::filesystem::exists(worker));
}

TEST_F(PiperctlSession, PreviewShowsCommandScriptRanksAndWarnings) {
    add({"--hosts", "node1:1,node2:1", "--interface", "nowhere0", "--line", "export A=1"}, "two");
    const CommandResult r = piperctl(
        {"run", example("plans/olmoe-tiny.json"), "--session", "two", "--preview", "--json"});
    ASSERT_EQ(r.exit_status, 0) << r.error_output;
    const Json preview = document(r);
    EXPECT_THAT(preview.at("script").get<std::string>(), HasSubstr("--host node1:1,node2:1"));
    EXPECT_THAT(preview.at("script").get<std::string>(), HasSubstr("export A=1\n"));
    EXPECT_FALSE(preview.at("rank_map").empty());
    EXPECT_THAT(preview.at("warnings").dump(), HasSubstr("no interface nowhere0"));
    EXPECT_THAT(preview.at("warnings").dump(), HasSubstr("hosts with 2 slots"));
    EXPECT_FALSE(std::filesystem::exists(path("there") / "jobs"));
}

TEST_F(PiperctlSession, RunSurvivesACutConnectionAndIsCollected) {
    const std::string job = startJob(12);
    ASSERT_FALSE(job.empty());
    m_server->dropConnections();
    EXPECT_NE(stateOf(job), "not listed");
    Result<ChildProcess> attached = ChildProcess::start(
        {program("piperctl"), "attach", job, "--session", "box", "-o", path("run.piper").string()},
        m_directory.path().string());
    ASSERT_TRUE(attached.ok());
    std::string output;
    std::optional<int> status;
    bool cut = false;
    for (int i = 0; i < 12000 && !status; ++i) {
        attached->readAvailable(output, output);
        if (!cut && output.find("running: step") != std::string::npos) {
            m_server->dropConnections();
            cut = true;
        }
        status = attached->poll();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    attached->readAvailable(output, output);
    ASSERT_EQ(status.value_or(-1), 0) << output;
    EXPECT_TRUE(cut);
    EXPECT_EQ(stateOf(job), "finished");
    auto workspace = Workspace::openOrCreate(path("run.piper"));
    ASSERT_TRUE(workspace.ok());
    const auto run = workspace->readRun(std::filesystem::path(job).filename().string());
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->outcome, RunOutcome::Finished);
    EXPECT_FALSE(run->ranks.empty());
    ASSERT_EQ(piperctl({"session", "clean", "box", "--jobs"}).exit_status, 0);
    EXPECT_FALSE(std::filesystem::exists(job));
}

TEST_F(PiperctlSession, OptionsThatAnActionDoesNotReadAndNoNameAreNamed) {
    const auto said = [](const std::vector<std::string>& words) {
        const CommandResult r = piperctl(words);
        EXPECT_EQ(r.exit_status, 2);
        return r.error_output;
    };
    EXPECT_THAT(said({"session", "add", "--host", "x"}), HasSubstr("needs a name"));
    EXPECT_THAT(said({"session", "test", "box", "--host", "x"}),
                HasSubstr("--host is for session add, not for session test"));
    EXPECT_THAT(said({"session", "list", "--jobs"}), HasSubstr("--jobs is for session clean"));
    EXPECT_THAT(said({"attach", "a/b", "--session", "box"}),
                HasSubstr("'a/b' is no directory of a job"));
    EXPECT_THAT(said({"fetch", "x", "-o", path("f").string(), "--rank", "-1"}),
                HasSubstr("'-1' must be a number, 0 or more"));
    EXPECT_THAT(said({"run", example("plans/olmoe-tiny.json"), "--steps", "0"}),
                HasSubstr("'0' must be a number above 0"));
}

/// A job that has ended, to fetch from.
class PiperctlFetch : public PiperctlSession {
protected:
    void SetUp() override {
        PiperctlSession::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        m_job = startJob(20);
        ASSERT_FALSE(m_job.empty());
        ASSERT_EQ(piperctl({"attach", m_job, "--session", "box"}).exit_status, 0);
    }

    CommandResult fetch(const std::vector<std::string>& more) {
        std::vector<std::string> words = {"fetch", m_job,  "--session", "box",
                                          "-o",    file(), "--json"};
        words.insert(words.end(), more.begin(), more.end());
        return piperctl(words);
    }
    Json phases() {
        const Json all = document(piperctl({"stats", file(), "--json"}));
        for (const Json& run : all.at("runs"))
            if (run.at("name") == jobName(m_job)) return run.at("phases");
        return Json();
    }
    CommandResult exportEvents() {
        return piperctl({"export", file(), jobName(m_job), "--to", "chrome", "-o",
                         path("trace.json").string()});
    }
    std::string file() { return path("run.piper").string(); }

    std::string m_job;
};

TEST_F(PiperctlFetch, WhereverItsNameLeadsNothingHereIsTouched) {
    // A host may say anything of a job: here its directory's parent is one, too.
    const std::string parent = std::filesystem::path(m_job).parent_path().string();
    for (const auto& file : std::filesystem::directory_iterator(m_job))
        std::filesystem::copy(file.path(), parent + "/" + file.path().filename().string());
    write("precious", "mine");
    const std::pair<std::string, int> jobs[] = {
        {m_job + "/..", 0}, {"..", 2}, {".", 0}, {m_job + "/", 0}};
    for (const auto& [job, status] : jobs) {
        const CommandResult r = piperctl({"fetch", job, "--session", "box", "-o", file()});
        EXPECT_EQ(r.exit_status, status) << job << ": " << r.error_output;
        EXPECT_EQ(test::readText(path("precious")), "mine") << job;
        EXPECT_FALSE(std::filesystem::exists(file() + ".job")) << job;
    }
    // Cancelling one that has ended changes nothing of it.
    const CommandResult ended = piperctl({"cancel", m_job, "--session", "box"});
    EXPECT_EQ(ended.exit_status, 0) << ended.error_output;
    EXPECT_THAT(ended.error_output, HasSubstr("had ended already: finished"));
    EXPECT_EQ(stateOf(m_job), "finished");
}

TEST_F(PiperctlFetch, ADigestComesFirstAndBecomesTheWholeRun) {
    const std::string name = jobName(m_job);
    const CommandResult digest = fetch({"--digest"});
    ASSERT_EQ(digest.exit_status, 0) << digest.error_output;
    EXPECT_EQ(document(digest).at("measured"), name);
    EXPECT_GT(document(digest).at("ranks_without_events").get<int>(), 0);
    const Json coarse = phases();
    EXPECT_GT(coarse.size(), 5U);
    EXPECT_EQ(piperctl({"compare", file(), document(digest).at("predicted"), name}).exit_status, 0);
    const CommandResult refused = exportEvents();
    EXPECT_EQ(refused.exit_status, 2);
    EXPECT_THAT(refused.error_output, HasSubstr("piperctl fetch JOB"));
    EXPECT_TRUE(std::filesystem::exists(m_job + "/digest.piper"));

    const CommandResult whole = fetch({});
    ASSERT_EQ(whole.exit_status, 0) << whole.error_output;
    EXPECT_EQ(document(whole).at("measured"), name);
    EXPECT_EQ(document(whole).at("predicted"), document(digest).at("predicted"));
    EXPECT_EQ(document(whole).at("ranks_without_events"), 0);
    EXPECT_EQ(phases(), coarse);
    EXPECT_EQ(exportEvents().exit_status, 0);
    EXPECT_FALSE(std::filesystem::exists(file() + ".job"));
}

TEST_F(PiperctlFetch, OneRankComesForWhoWantsToLookAtThatOneOnly) {
    const CommandResult nobody = fetch({"--rank", "77"});
    EXPECT_EQ(nobody.exit_status, 2);
    EXPECT_THAT(nobody.error_output, HasSubstr("no records of rank 77; it has 0 to"));
    EXPECT_FALSE(std::filesystem::exists(file()));
    const CommandResult digest = fetch({"--digest"});
    ASSERT_EQ(digest.exit_status, 0) << digest.error_output;
    const int all = document(digest).at("ranks_without_events").get<int>();
    ASSERT_GT(all, 1);
    for (int i = 0; i < 2; ++i) {  // again it changes nothing
        const CommandResult one = fetch({"--rank", "0"});
        ASSERT_EQ(one.exit_status, 0) << one.error_output;
        EXPECT_EQ(document(one).at("measured"), jobName(m_job));
        EXPECT_EQ(document(one).at("ranks_without_events"), all - 1);
    }
    const auto part = Workspace::open(file())->readRun(jobName(m_job));
    ASSERT_TRUE(part.ok()) << part.error().text();
    EXPECT_FALSE(part->ranks[0].isDigest());
    EXPECT_TRUE(part->ranks[1].isDigest());
    EXPECT_THAT(part->notes.at("digest"), HasSubstr(fmt::format("of {} of", all - 1)));
    EXPECT_EQ(exportEvents().exit_status, 2);
}

TEST_F(PiperctlFetch, ALauncherThatLeftNoScriptHasNoDigest) {
    std::filesystem::remove(m_job + "/digest.piper");
    std::filesystem::remove(m_job + "/digest.sh");
    const CommandResult none = fetch({"--digest", "--name", "again"});
    EXPECT_EQ(none.exit_status, 3);
    EXPECT_THAT(none.error_output, HasSubstr("its launcher left no script for it"));
}

/// A real connection that is lost for good once the files of the last rank have come.
class LostAfterFetch final : public Connection {
public:
    LostAfterFetch(Connection& real, std::string last) : m_real(real), m_last(std::move(last)) {}

    std::string_view label() const override { return m_real.label(); }
    bool isLocal() const override { return false; }
    Result<CommandResult> run(const std::vector<std::string>& argv, std::stop_token stop) override {
        if (m_lost) return lost();
        return m_real.run(argv, stop);
    }
    Result<std::unique_ptr<RunningCommand>> start(const std::vector<std::string>& argv,
                                                  const std::string& directory) override {
        if (m_lost) return lost();
        return m_real.start(argv, directory);
    }
    Result<std::string> readFile(const std::string& path, std::int64_t limit,
                                 std::int64_t offset) override {
        if (m_lost) return lost();
        return m_real.readFile(path, limit, offset);
    }
    Status writeFile(const std::string&, std::string_view, bool) override { return lost(); }
    Status makeDirectory(const std::string&) override { return lost(); }
    Result<std::vector<RemoteFile>> list(const std::string& path) override {
        if (m_lost) return lost();
        return m_real.list(path);
    }
    Status fetch(const std::string& remote, const std::filesystem::path& local,
                 const TransferProgress& progress, std::stop_token stop) override {
        if (m_lost) return lost();
        const Status fetched = m_real.fetch(remote, local, progress, stop);
        m_lost = remote.ends_with(m_last);
        return fetched;
    }
    Status send(const std::filesystem::path&, const std::string&, bool, const TransferProgress&,
                std::stop_token) override {
        return lost();
    }
    [[nodiscard]] bool isLost() const { return m_lost; }

private:
    static Error lost() { return fail(ErrorCode::External, "the connection was lost"); }

    Connection& m_real;
    std::string m_last;
    bool m_lost = false;
};

TEST_F(PiperctlSession, AConnectionLostAtTheEndOfAFetchLeavesOneRun) {
    const std::string job = startJob(4);
    ASSERT_FALSE(job.empty());
    ASSERT_EQ(piperctl({"attach", job, "--session", "box"}).exit_status, 0);
    auto real = open("host");
    ASSERT_TRUE(real.ok()) << real.error().text();
    LostAfterFetch connection(**real, "status.json");  // the last one by name
    auto run = PlanRun::attach(connection, job);
    ASSERT_TRUE(run.ok()) << run.error().text();
    // All that is stored was there before.
    const auto collected = run->collect(path("run.piper"), "measured");
    EXPECT_TRUE(connection.isLost());
    ASSERT_TRUE(collected.ok()) << collected.error().text();
    const auto runs = Workspace::open(path("run.piper"))->runs();
    ASSERT_TRUE(runs.ok());
    EXPECT_EQ(std::count_if(runs->begin(), runs->end(),
                            [](const auto& r) { return r.kind == RunKind::Measured; }),
              1);
    EXPECT_FALSE(std::filesystem::exists(path("run.piper.job")));
}

TEST_F(PiperctlSession, CancelLeavesNoProcess) {
    const std::string job = startJob(100000);
    ASSERT_FALSE(job.empty());
    for (int i = 0; i < 600 && processesNaming("--job " + job).empty(); ++i) {
        if (!std::filesystem::exists(job + "/status.json"))
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        else
            break;
    }
    const CommandResult r = piperctl({"cancel", job, "--session", "box"});
    EXPECT_EQ(r.exit_status, 0) << r.error_output;
    for (const pid_t pid : processesNaming(job)) ADD_FAILURE() << "process " << pid << " is left";
    EXPECT_EQ(stateOf(job), "cancelled");
}

}  // namespace
}  // namespace piper::test
