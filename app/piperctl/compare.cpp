// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/piperctl/command.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/run/device_statistics.h"
#include "core/run/report.h"
#include "core/run/statistics.h"

namespace piper::app {
namespace {

struct CompareOptions {
    std::string file;
    std::string a, b;
    int skip_steps = 1;
    std::string rule{CommunicationRule::kDefault};
};

/// Sums over the device work of a run, chunk by chunk: constant memory beside its intervals.
Result<DeviceStatistics> deviceStatisticsOf(Workspace& workspace, const Run& header,
                                            const CommunicationRule& rule) {
    DeviceAccumulator sum(rule);
    for (const RankTimeline& rank : header.ranks) {
        sum.beginRank(rank);
        PIPER_TRY(workspace.visitEvents(header.name, rank.rank,
                                        [&](std::span<const Event> part) { sum.add(part); }));
    }
    return sum.finish();
}

bool isTrace(const Run& header) {
    return header.notes.contains("format");
}

Outcome compareTraces(Workspace& workspace, const Run& a, const Run& b,
                      const CommunicationRule& rule, bool json) {
    PIPER_ASSIGN(const DeviceStatistics in_a, deviceStatisticsOf(workspace, a, rule));
    PIPER_ASSIGN(const DeviceStatistics in_b, deviceStatisticsOf(workspace, b, rule));
    const DeviceComparison comparison = compareDevices(a, in_a, b, in_b);
    if (json)
        printJson(deviceComparisonJson(a, b, comparison));
    else
        fmt::print("{}", deviceComparisonTable(a, b, comparison));
    return workspace.damage().empty() ? 0 : 1;
}

Outcome runCompare(const CompareOptions& options, bool json) {
    PIPER_ASSIGN(Workspace workspace, Workspace::open(options.file));
    PIPER_ASSIGN(const CommunicationRule rule, CommunicationRule::parse(options.rule));
    PIPER_ASSIGN(Run a, workspace.readHeader(options.a));
    PIPER_ASSIGN(Run b, workspace.readHeader(options.b));
    if (isTrace(a) && isTrace(b)) return compareTraces(workspace, a, b, rule, json);
    PIPER_ASSIGN(a, workspace.readRun(options.a));
    PIPER_ASSIGN(b, workspace.readRun(options.b));
    Comparison comparison = compareRuns(a, b, options.skip_steps);
    for (const Run* run : {&a, &b})
        if (isTrace(*run))
            comparison.warnings.push_back(
                fmt::format("run '{}' is an imported trace: its phases are not known", run->name));
    Json document = comparisonJson(a, b, comparison);
    document["kernels"] = Json::array();
    if (json)
        printJson(document);
    else
        fmt::print("{}", comparisonTable(a, b, comparison));
    for (const std::string& damage : workspace.damage()) printMessage("damaged: " + damage);
    return workspace.damage().empty() ? 0 : 1;
}

Outcome runStats(const CompareOptions& options, bool json) {
    PIPER_ASSIGN(const CommunicationRule rule, CommunicationRule::parse(options.rule));
    PIPER_ASSIGN(Workspace workspace, Workspace::open(options.file));
    PIPER_ASSIGN(const std::vector<RunSummary> summaries, workspace.runs());
    Json document = {{"runs", Json::array()}};
    for (const RunSummary& summary : summaries) {
        PIPER_ASSIGN(Run run, workspace.readHeader(summary.name));
        PIPER_ASSIGN(const DeviceStatistics devices, deviceStatisticsOf(workspace, run, rule));
        // The phases of an imported trace are not known: its events need not be in memory.
        if (!isTrace(run)) {
            PIPER_ASSIGN(run, workspace.readRun(summary.name));
        }
        const RunStatistics statistics = computeStatistics(run, options.skip_steps);
        Json entry = statisticsJson(run, statistics);
        addDeviceStatistics(run, devices, entry);
        document["runs"].push_back(std::move(entry));
        if (json) continue;
        fmt::print("{}", statisticsTable(run, statistics));
        if (isTrace(run)) fmt::print("{}", deviceTable(run, devices));
        fmt::print("\n");
    }
    document["format_version"] = 1;
    document["comm_rule"] = options.rule;
    if (json) printJson(document);
    for (const std::string& damage : workspace.damage()) printMessage("damaged: " + damage);
    return workspace.damage().empty() ? 0 : 1;
}

}  // namespace

void addCompare(CommandSet& commands) {
    const auto compare = std::make_shared<CompareOptions>();
    CLI::App& compare_app =
        commands.add("compare", "Two runs, modelled or measured, phase by phase",
                     [compare, &commands] { return runCompare(*compare, commands.json()); });
    compare_app.add_option("file", compare->file, "Workspace file")->required();
    compare_app.add_option("a", compare->a, "First run")->required();
    compare_app.add_option("b", compare->b, "Second run")->required();
    compare_app.add_option("--comm-rule", compare->rule,
                           "Of traces: expression, in any case, of kernels that are communication");
    compare_app
        .add_option("--skip-steps", compare->skip_steps, "Warm-up steps of measured runs left out")
        ->capture_default_str();

    const auto stats = std::make_shared<CompareOptions>();
    CLI::App& stats_app =
        commands.add("stats", "Statistics of every run of a workspace file",
                     [stats, &commands] { return runStats(*stats, commands.json()); });
    stats_app.add_option("file", stats->file, "Workspace file")->required();
    stats_app.add_option("--comm-rule", stats->rule,
                         "Expression, in any case, of kernel names that are communication");
    stats_app
        .add_option("--skip-steps", stats->skip_steps, "Warm-up steps of measured runs left out")
        ->capture_default_str();
}

}  // namespace piper::app
