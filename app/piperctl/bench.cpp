// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/bench.h"

#include <map>
#include <memory>
#include <ranges>

#include "app/command_line/command_line.h"

namespace piper::app {

void addBench(CommandSet& commands) {
    using Bench = Outcome (*)(const BenchOptions&, bool);
    static const std::map<std::string, Bench> kSubjects = {
        {"alltoall", benchCollectives}, {"fetch", benchFetch},     {"gemm", benchGemm},
        {"import", benchImport},        {"predict", benchPredict}, {"search", benchSearch},
        {"session", benchSession},      {"store", benchStore},     {"worker", benchWorker}};
    const auto names = kSubjects | std::views::keys;
    const auto options = std::make_shared<BenchOptions>();
    CLI::App& app = commands.add(
        "bench", "Time a part of the program, or hold the model against published times",
        [options, &commands] { return kSubjects.at(options->subject)(*options, commands.json()); });
    app.add_option(
           "subject", options->subject,
           "alltoall (all collectives), fetch (files over SSH against scp and sftp), gemm (and "
           "other kernels), import (a Kineto file, against json.load), store (rows of the "
           "collector, windows), predict (predictions a second on one core), search (strategies a "
           "second; whole searches), session (from connecting to the discovered cluster), worker "
           "(experts, a training step and collecting on one thread "
           "beside their limits)")
        ->check(oneOf({names.begin(), names.end()}))
        ->required();
    app.add_option(
        "--published", options->published,
        "alltoall: table of published collectives (nccl-tests columns, docs/formats.md); gemm: "
        "table of published kernel times, the rows compiled in if left out");
    app.add_option("--leave-out", options->leave_out,
                   "Parts; each is predicted from the rest of the table. 0: from the curves "
                   "compiled in");
    app.add_option("--by", options->by, "What falls out together: row, size or curve")
        ->capture_default_str();
    app.add_option("--cluster", options->cluster, "Roofs of a cluster: FILE or DEVICE:NODES");
    app.add_option("--plan", options->plan,
                   "predict: a plan file instead of the bundled Mixtral 8x7B");
    app.add_option("--traces", options->traces,
                   "import: Kineto files (.json, .gz) whose events make up the file");
    app.add_option("--mb", options->megabytes, "import: its size in MB")
        ->check(CLI::Range(0.001, 100000.0))
        ->capture_default_str();
    app.add_option("--events", options->events, "store: events of the run that windows are read of")
        ->check(CLI::Range(std::int64_t{1000}, std::int64_t{1} << 32))
        ->capture_default_str();
    app.add_option("--session", options->session, "fetch, session, worker: session to measure")
        ->capture_default_str();
    app.add_option("--bytes", options->bytes, "fetch: size of the file")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
        ->capture_default_str();
    app.add_option("--pairs", options->pairs, "fetch, import, session: rounds")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    app.add_flag("--quick", options->quick, "worker: fewer shapes and pairs");
    app.add_option("--seconds", options->seconds, "Time spent on each measurement")
        ->check(CLI::Range(0.01, 600.0))
        ->capture_default_str();
}

}  // namespace piper::app
