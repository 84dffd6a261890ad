// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "app/piperctl/command.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/run/device_statistics.h"
#include "core/run/pipeline_statistics.h"
#include "core/run/report.h"
#include "core/run/statistics.h"
#include "core/schedule/run_groups.h"

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

bool isImported(const Run& header) {
    return header.notes.contains("format");
}

/// A run with its sums over devices.
struct Loaded {
    Run run;  ///< without its events when it is a trace of devices: they need not be in memory
    DeviceStatistics devices;
    bool trace = false;
};

/// Traces of devices know kernels and steps, but no phases; logs and profiles are like our runs.
Result<Loaded> load(Workspace& workspace, const std::string& name, const CommunicationRule& rule,
                    bool with_devices) {
    Loaded out;
    PIPER_ASSIGN(out.run, workspace.readWithoutEvents(name));
    const bool imported = isImported(out.run);
    if (imported || with_devices) {
        PIPER_ASSIGN(out.devices, deviceStatisticsOf(workspace, out.run, rule));
    }
    const std::string format = imported ? out.run.notes.at("format") : "";
    out.trace = imported && (out.devices.devices > 0 || format == "chrome" || format == "nsys");
    if (!out.trace) {
        PIPER_ASSIGN(out.run, workspace.readRun(name));
    }
    return out;
}

/// Prints the damage met; the exit status.
int reportDamage(const Workspace& workspace) {
    for (const std::string& damage : workspace.damage()) printMessage("damaged: " + damage);
    return workspace.damage().empty() ? 0 : 1;
}

void compareTraces(const Loaded& a, const Loaded& b, int skip_steps, bool json) {
    const DeviceComparison comparison = compareDevices(a.run, a.devices, b.run, b.devices);
    Json document = deviceComparisonJson(a.run, b.run, comparison);
    if (!json) fmt::print("{}", deviceComparisonTable(a.run, b.run, comparison));
    for (const auto& [key, side] : {std::pair{"a", &a}, std::pair{"b", &b}}) {
        const RunStatistics statistics = computeStatistics(side->run, skip_steps);
        document[key]["steps"] = statistics.steps;
        document[key]["step_seconds"] = static_cast<double>(statistics.step_ns_median) / 1e9;
        if (!json && statistics.steps > 0)
            fmt::print("{}: {} steps, median {:.3f} ms\n", side->run.name, statistics.steps,
                       static_cast<double>(statistics.step_ns_median) / 1e6);
    }
    if (json) printJson(document);
}

bool hasEvents(const Run& run) {
    return std::any_of(run.ranks.begin(), run.ranks.end(),
                       [](const RankTimeline& rank) { return rank.numEvents() > 0; });
}

void comparePhases(const Loaded& a, const Loaded& b, int skip_steps, bool json) {
    Comparison comparison = compareRuns(a.run, b.run, skip_steps);
    for (const Loaded* side : {&a, &b}) {
        if (side->trace)
            comparison.warnings.push_back(fmt::format(
                "run '{}' is a trace of devices: its phases are not known", side->run.name));
        else if (!hasEvents(side->run))
            comparison.warnings.push_back(fmt::format(
                "run '{}' holds no operations: its phases are not known", side->run.name));
    }
    Json document = comparisonJson(a.run, b.run, comparison);
    document["kernels"] = Json::array();
    if (json)
        printJson(document);
    else
        fmt::print("{}", comparisonTable(a.run, b.run, comparison));
}

Outcome runCompare(const CompareOptions& options, bool json) {
    PIPER_ASSIGN(Workspace workspace, Workspace::open(options.file));
    PIPER_ASSIGN(const CommunicationRule rule, CommunicationRule::parse(options.rule));
    PIPER_ASSIGN(const Loaded a, load(workspace, options.a, rule, false));
    PIPER_ASSIGN(const Loaded b, load(workspace, options.b, rule, false));
    if (a.trace && b.trace)
        compareTraces(a, b, options.skip_steps, json);
    else
        comparePhases(a, b, options.skip_steps, json);
    return reportDamage(workspace);
}

/// By the plan that the run keeps, else by its stages.
CommunicationGroups groupsOf(const Run& run) {
    const Result<Plan> plan = readPlanText(run.plan_json, "the run's plan");
    return plan.ok() ? groupsOfPlan(*plan, run) : groupsByStage(run);
}

Outcome runStats(const CompareOptions& options, bool json) {
    PIPER_ASSIGN(const CommunicationRule rule, CommunicationRule::parse(options.rule));
    PIPER_ASSIGN(Workspace workspace, Workspace::open(options.file));
    PIPER_ASSIGN(const std::vector<RunSummary> summaries, workspace.runs());
    Json document = {{"runs", Json::array()}};
    for (const RunSummary& summary : summaries) {
        PIPER_ASSIGN(const Loaded loaded, load(workspace, summary.name, rule, true));
        const Run& run = loaded.run;
        const RunStatistics statistics = computeStatistics(run, options.skip_steps);
        Json entry = statisticsJson(run, statistics);
        addDeviceStatistics(run, loaded.devices, entry);
        // Waits and the critical path are between single events.
        const bool digest = run.numDigests() > 0;
        const PipelineStatistics pipeline =
            digest ? PipelineStatistics()
                   : pipelineStatistics(run, groupsOf(run), options.skip_steps);
        if (!loaded.trace && !digest) addPipelineStatistics(run, pipeline, entry);
        document["runs"].push_back(std::move(entry));
        if (digest)
            printMessage(
                fmt::format("run '{}': {} of {} ranks are here without most events, so waits, "
                            "layers and the critical path are not known: piperctl fetch JOB "
                            "brings them",
                            run.name, run.numDigests(), run.ranks.size()));
        if (json) continue;
        fmt::print("{}", statisticsTable(run, statistics));
        if (!digest) fmt::print("{}", pipelineTable(run, pipeline));
        if (isImported(run)) fmt::print("{}", deviceTable(run, loaded.devices));
        fmt::print("\n");
    }
    document["format_version"] = 1;
    document["comm_rule"] = options.rule;
    if (json) printJson(document);
    return reportDamage(workspace);
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
