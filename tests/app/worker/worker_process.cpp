// SPDX-License-Identifier: Apache-2.0
#include "tests/app/worker/worker_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/base/json.h"
#include "tests/support/paths.h"

extern char** environ;

namespace piper::test {
namespace {

std::string textOf(const std::filesystem::path& path) {
    std::ifstream in(path);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

std::string quoted(const std::string& word) {
    return "'" + word + "'";
}

/// A shell that outlives SIGTERM runs the worker and writes down how it ended.
std::string rankScript(const Launch& launch) {
    std::string line = "trap : TERM; " + launch.prelude + " " + quoted(program("piper-worker")) +
                       " --plan " + quoted((launch.job / "plan.json").string()) + " --job " +
                       quoted(launch.job.string());
    for (const std::string& argument : launch.arguments) line += " " + quoted(argument);
    return line + "; s=$?; echo $s > " + quoted((launch.job / "exit-").string()) +
           "${OMPI_COMM_WORLD_RANK:-0}; exit $s";
}

std::vector<std::string> commandLine(const Launch& launch) {
    const std::vector<std::string> rank{"/bin/sh", "-c", rankScript(launch)};
    if (!launch.mpi) return rank;
    std::vector<std::string> words{PIPER_MPIRUN,
                                   "--oversubscribe",
                                   "--bind-to",
                                   "none",
                                   "--mca",
                                   "odls_base_sigkill_timeout",
                                   "2",
                                   "-x",
                                   "PIPER_NODE",
                                   "-np",
                                   std::to_string(launch.plan.layout.world())};
    words.insert(words.end(), rank.begin(), rank.end());
    return words;
}

}  // namespace

WorkerProcess::WorkerProcess(const Launch& launch) : m_job(launch.job) {
    std::ofstream(launch.job / "plan.json") << writePlan(launch.plan).dump(2);
    std::vector<std::string> words = commandLine(launch);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("PIPER_NODE", launch.nodes.empty() ? "0" : launch.nodes.c_str(), 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string output = (m_job / "output.txt").string();
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    EXPECT_EQ(::posix_spawn(&m_process, arguments[0], &actions, nullptr, arguments.data(), environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
}

WorkerProcess::~WorkerProcess() {
    if (m_process <= 0) return;
    ::kill(m_process, SIGTERM);
    (void)wait();
}

int WorkerProcess::wait() {
    int status = 0;
    if (::waitpid(m_process, &status, 0) != m_process) return -1;
    m_process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int WorkerProcess::rankExit(std::int64_t rank) const {
    std::ifstream in(m_job / ("exit-" + std::to_string(rank)));
    int status = -1;
    in >> status;
    return in ? status : -1;
}

std::string WorkerProcess::output() const {
    return textOf(m_job / "output.txt");
}
std::string WorkerProcess::statusText() const {
    return textOf(m_job / "status.json");
}

bool WorkerProcess::awaitStep(std::int64_t step) const {
    for (int i = 0; i < 6000; ++i) {
        const Result<Json> status = parseJson(statusText(), "status.json");
        if (status.ok() && status->value("step", std::int64_t{0}) >= step) return true;
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(m_process), &info, WEXITED | WNOHANG | WNOWAIT) !=
                0 ||
            info.si_pid != 0)
            return false;
        ::usleep(10'000);
    }
    return false;
}

std::vector<double> WorkerProcess::losses() const {
    std::istringstream in(output());
    std::vector<double> losses;
    for (std::string word; in >> word;) {
        double loss = 0.0;
        if (word == "loss" && in >> loss) losses.push_back(loss);
        in.clear();
    }
    return losses;
}

WorkerResult runWorkers(const Launch& launch) {
    WorkerProcess workers(launch);
    WorkerResult result;
    result.exit_status = workers.wait();
    result.losses = workers.losses();
    result.output = workers.output();
    result.status = workers.statusText();
    return result;
}

Plan smallPlan(std::int64_t pp, std::int64_t dp, std::int64_t ep) {
    Plan plan;
    ModelSpec& model = plan.model;
    model.name = "small";
    model.model_type = "piper";
    model.hidden_size = 32;
    model.num_layers = 4;
    model.vocab_size = 256;
    model.ffn_hidden_size = 48;
    model.attention.num_heads = 4;
    model.attention.num_kv_heads = 2;
    model.attention.head_dim = 8;
    model.layers = {LayerKind::Dense, LayerKind::Moe, LayerKind::Dense, LayerKind::Moe};
    model.max_position_embeddings = 64;
    MoeSpec moe;
    moe.num_experts = 8;
    moe.router_topk = 2;
    moe.moe_ffn_hidden_size = 24;
    moe.shared_ffn_hidden_size = 16;
    moe.aux_loss_coefficient = 0.01;
    model.moe = moe;
    plan.cluster =
        readClusterText(readText(sourceDir() / "packaging/examples/clusters/local-cpu.json"),
                        "local-cpu.json")
            .value();
    plan.layout.pp = pp;
    plan.layout.dp = dp;
    plan.layout.ep = ep;
    plan.precision = Precision::Fp32;
    plan.micro_batch_size = 2;
    plan.global_batch_size = 8;
    plan.seq_len = 32;
    return plan;
}

}  // namespace piper::test
