// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>

#include "app/alltoall/bench.h"
#include "app/alltoall/contest.h"
#include "app/command_line/command_line.h"
#include "kernels/transport/local_transport.h"
#include "kernels/transport/mpi_transport.h"
#include "kernels/transport/node_map.h"

namespace piper::app {
namespace {

Result<std::unique_ptr<Transport>> makeTransport() {
    if (launchedByMpi([](const char* name) { return std::getenv(name); }))
        return makeMpiTransport({});
    return makeLocalTransport();
}

void printExplanation(const Json& document) {
    if (document.contains("auto"))
        fmt::print("auto takes {}\n", document.at("auto").at("why").get<std::string>());
    fmt::print("{}\n{:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n",
               document.at("why").get<std::string>(), "algorithm", "ms", "link", "messages",
               "inside", "node MB", "rank msg");
    for (const Json& e : document.at("algorithms"))
        fmt::print(
            "{:<12} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>9.0f}\n",
            e.at("algorithm").get<std::string>(), 1e3 * e.at("seconds").get<double>(),
            1e3 * e.at("link_seconds").get<double>(), 1e3 * e.at("message_seconds").get<double>(),
            1e3 * e.at("local_seconds").get<double>(),
            1e-6 * e.at("busiest_node_bytes").get<double>(), e.at("rank_messages").get<double>());
}

void print(const Json& document) {
    if (document.at("bench") == "explain") return printExplanation(document);
    if (document.at("bench") == "moe") {
        printContest(
            fmt::format(
                "dispatch + combine: {} ranks, {} tokens a rank, rows of {} B, "
                "top-{} of {} experts, node limit {}, zipf {}, wire {}",
                document.at("ranks").get<std::int64_t>(), document.at("tokens").get<std::int64_t>(),
                document.at("row_bytes").get<std::int64_t>(),
                document.at("topk").get<std::int64_t>(), document.at("experts").get<std::int64_t>(),
                document.at("node_limit").get<std::int64_t>(), document.at("zipf").get<double>(),
                document.at("wire").get<std::string>()),
            document.at("results"));
        return;
    }
    if (document.at("bench") == "tune") {
        for (const Json& s : document.at("settings"))
            printContest(
                fmt::format("{} ranks on {} nodes, rows of {:.0f} B, top-{}, node limit {}, "
                            "imbalance {:.2f}",
                            document.at("ranks").get<std::int64_t>(),
                            document.at("nodes").get<std::int64_t>(),
                            s.at("row_bytes").get<double>(), s.at("topk").get<std::int64_t>(),
                            s.at("node_limit").get<std::int64_t>(),
                            s.at("imbalance").get<double>()),
                s.at("results"));
        return;
    }
    for (const Json& size : document.at("sizes"))
        printContest(fmt::format("{} ranks, {} B a pair", document.at("ranks").get<std::int64_t>(),
                                 size.at("bytes_per_pair").get<std::int64_t>()),
                     size.at("results"));
}

using Bench = Result<Json> (*)(Communicator&, const BenchOptions&);

int runBench(Bench bench, const BenchOptions& options, bool json) {
    Result<std::unique_ptr<Transport>> transport = makeTransport();
    if (!transport.ok()) {
        std::fprintf(stderr, "piper-alltoall: %s\n", transport.error().text().c_str());
        return exitStatus(transport.error().code);
    }
    Communicator& world = (*transport)->world();
    Result<Json> document = bench(world, options);
    if (!document.ok()) {
        std::fprintf(stderr, "piper-alltoall: rank %d: %s\n", static_cast<int>(world.rank()),
                     document.error().text().c_str());
        const int status = exitStatus(document.error().code);
        if (world.size() > 1) (*transport)->abort(status);
        return status;
    }
    if (world.rank() != 0) return 0;
    if (json)
        fmt::print("{}\n", document->dump(1));
    else
        print(*document);
    return 0;
}

}  // namespace
}  // namespace piper::app

int main(int argc, char** argv) {
    using namespace piper::app;
    CLI::App app(
        "Checks and times the all-to-all algorithms on the ranks that mpirun or srun "
        "starts; ratios are medians of interleaved pairs against the first algorithm, the "
        "row '(again)' is the noise floor",
        "piper-alltoall");
    BenchOptions options;
    bool json = false;
    app.require_subcommand(1);
    CLI::App* moe = app.add_subcommand(
        "moe",
        "Dispatch and combine of (token, expert) rows: vendor, flat, node, rail, node_pair, "
        "rank_dedup, node_dedup, rack_dedup");
    CLI::App* pairs = app.add_subcommand(
        "pairs", "The same bytes between all pairs: vendor, flat, node, rail, node_pair");
    CLI::App* explain = app.add_subcommand(
        "explain", "What each algorithm would take for the tokens of moe, and which link limits");
    CLI::App* tune = app.add_subcommand(
        "tune",
        "moe under every combination of settings, into the measured table of a cluster file, by "
        "which a plan's auto chooses");
    tune->add_option("--cluster", options.cluster, "Cluster file (piperctl calibrate makes one)")
        ->required();
    tune->add_option("--hiddens", options.hiddens, "Floats of a row")->delimiter(',');
    tune->add_option("--topks", options.topks)->delimiter(',');
    tune->add_option("--node-limits", options.node_limits)->delimiter(',');
    tune->add_option("--zipfs", options.zipfs)->delimiter(',');
    explain->add_option("--cluster", options.cluster,
                        "Cluster file: its links, and what a plan's auto takes by its table");
    explain->add_option("--message-us", options.message_us, "A rank's time for one message");
    for (CLI::App* one : {moe, pairs, explain, tune}) {
        one->add_flag("--json", json, "One JSON document on standard output");
        one->add_option("--rate-mbit", options.rate_mbit, "Link of a node, for the bound");
        if (one == explain) continue;  // times nothing and always names every algorithm
        one->add_option("--pairs", options.pairs, "Rounds")->check(CLI::Range(1, 10000));
        if (one == tune) continue;
        one->add_option("--algorithms", options.algorithms, "The first is the baseline")
            ->delimiter(',');
    }
    const auto positive = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
    for (CLI::App* one : {moe, explain, tune}) {
        one->add_option("--tokens", options.tokens, "Of each rank")->check(positive);
        one->add_option("--experts", options.experts, "Of all ranks")->check(positive);
        if (one == tune) continue;
        one->add_option("--hidden", options.hidden, "Floats of a row")->check(positive);
        one->add_option("--topk", options.topk)->check(positive);
        one->add_option("--node-limit", options.node_limit, "Nodes a token may reach, 0: any");
        one->add_option("--zipf", options.zipf, "Exponent of the experts' popularity");
        one->add_option("--wire", options.wire, "fp32, bf16 or fp8");
    }
    moe->add_option("--racks", options.racks, "Rack of each rank")->delimiter(',');
    pairs->add_option("--sizes", options.sizes, "Bytes a pair")->delimiter(',')->check(positive);
    completeCommandLine(app);
    if (const auto status = readCommandLine(app, argc, argv)) return *status;
    return runBench(moe->parsed()       ? benchMoe
                    : explain->parsed() ? explainMoe
                    : tune->parsed()    ? tuneMoe
                                        : benchPairs,
                    options, json);
}
