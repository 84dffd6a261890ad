// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <memory>

#include "app/common/sessions.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "sessions/job_directory.h"
#include "sessions/mpirun_launcher.h"

namespace piper::app {
namespace {

struct CalibrateOptions {
    std::string session = "local";
    std::string output = "cluster.json";
    std::int64_t ranks = 0;
    bool quick = false;
};

/// One rank a processor: what a prediction of an unshared rank needs.
Result<std::int64_t> processors(Connection& connection) {
    PIPER_ASSIGN(const CommandResult r, connection.run({"nproc"}));
    const std::int64_t count = std::atoll(r.output.c_str());
    if (count >= 1) return count;
    return fail(ErrorCode::External, "nproc on {} printed '{}'", connection.label(), r.output);
}

void printCurves(const ClusterSpec& cluster, const std::string& path) {
    TextTable table({"what", "points", "best"});
    FlopsPerSecond gemm, attention;
    for (const GemmPoint& p : cluster.curves.gemm) gemm = std::max(gemm, p.rate);
    for (const AttentionPoint& p : cluster.curves.attention)
        attention = std::max(attention, p.rate);
    BytesPerSecond memory;
    for (const MemoryPoint& p : cluster.curves.memory) memory = std::max(memory, p.rate);
    table.add({"gemm", std::to_string(cluster.curves.gemm.size()), humanFlopsPerSecond(gemm)});
    table.add({"attention", std::to_string(cluster.curves.attention.size()),
               humanFlopsPerSecond(attention)});
    table.add(
        {"memory", std::to_string(cluster.curves.memory.size()), humanBytesPerSecond(memory)});
    table.add({"collective", std::to_string(cluster.curves.collective.size()), ""});
    table.add({"overhead", std::to_string(cluster.curves.overhead.size()), ""});
    fmt::print("{}cluster file {}\n", table.text(), path);
}

Outcome runCalibrate(const CalibrateOptions& options, bool json) {
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(options.session));
    Connection* const connection = &session->connection();
    std::int64_t ranks = options.ranks;
    if (ranks == 0) {
        PIPER_ASSIGN(ranks, processors(*connection));
    }
    PIPER_ASSIGN(const std::string root, session->jobsRoot());
    PIPER_ASSIGN(const std::string worker, session->worker(siblingProgram("piper-worker")));
    const std::string directory = root + "/" + newJobName("calibrate");
    PIPER_TRY(connection->makeDirectory(directory));
    const std::string file = directory + "/cluster.json";
    std::vector<std::string> program = {worker, "--calibrate", file};
    if (options.quick) program.emplace_back("--quick");
    printMessage(fmt::format("measuring with {} ranks ...", ranks));
    PIPER_ASSIGN(const CommandResult done, connection->run(mpirunCommand(ranks, program)));
    if (done.exit_status != 0)
        return fail(ErrorCode::External, "calibration on {} ended with status {}: {}",
                    connection->label(), done.exit_status, done.error_output + done.output);
    PIPER_ASSIGN(const std::string text, connection->readFile(file, 64 << 20));
    PIPER_ASSIGN(const ClusterSpec cluster, readClusterText(text, file));
    PIPER_TRY(writeTextFile(options.output, text));
    if (json)
        printJson(writeCluster(cluster));
    else
        printCurves(cluster, options.output);
    return 0;
}

}  // namespace

void addCalibrate(CommandSet& commands) {
    const auto options = std::make_shared<CalibrateOptions>();
    CLI::App& app =
        commands.add("calibrate", "Measure a session's machine into a cluster file",
                     [options, &commands] { return runCalibrate(*options, commands.json()); });
    app.add_option("--session", options->session, "Session to measure")->capture_default_str();
    app.add_option("--ranks", options->ranks,
                   "Ranks that measure at once; default: one a processor");
    app.add_flag("--quick", options->quick, "Fewer shapes and repetitions");
    app.add_option("-o,--output", options->output, "Cluster file")->capture_default_str();
}

}  // namespace piper::app
