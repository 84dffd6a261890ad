// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <chrono>
#include <memory>

#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct SearchOptions {
    PlanOptions workload;
    std::string fixed;
    std::string objective = "mfu";
    std::int64_t max_world = 0;
    std::size_t top = 10;
    std::string output;
};

void printSearch(const SearchResult& result) {
    TextTable table({"#", "layout", "mbs", "recompute", "mfu", "step", "tokens/s/device", "memory",
                     "verdict", "bubble"});
    std::size_t number = 0;
    for (const RankedPlan& ranked : result.plans) {
        const Layout& l = ranked.plan.layout;
        const Prediction& p = ranked.prediction;
        table.add({std::to_string(++number),
                   fmt::format("tp={} pp={} ep={} dp={}", l.tp, l.pp, l.ep, l.dp),
                   std::to_string(ranked.plan.micro_batch_size),
                   std::string(toText(ranked.plan.recompute.granularity)),
                   fmt::format("{:.1f} %", 100 * p.mfu), humanSeconds(p.step),
                   fmt::format("{:.0f}", p.tokens_per_second_per_device), humanBytes(p.memory.peak),
                   std::string(toText(p.memory.verdict)),
                   fmt::format("{:.1f} %", 100 * p.bubble_fraction)});
    }
    fmt::print("{}", table.text());
    fmt::print("{} layouts evaluated, {} feasible, {:.3f} s\n", result.evaluated, result.feasible,
               result.seconds);
    for (const Rejection& r : result.rejections)
        fmt::print("lost: {} ({}): {}\n", r.layout, r.rule, r.message);
}

Result<SearchSpace> spaceFrom(const SearchOptions& options) {
    SearchSpace space;
    PIPER_ASSIGN(space.base, workloadFrom(options.workload));
    PIPER_ASSIGN(space.objective, parseEnum<Objective>(options.objective, "objective"));
    space.max_world = options.max_world;
    space.top = options.top;
    if (!options.fixed.empty()) {
        PIPER_ASSIGN(space.fixed, applyFixed(space.base, options.fixed));
    }
    return space;
}

Outcome runSearch(const SearchOptions& options, bool json) {
    PIPER_ASSIGN(const SearchSpace space, spaceFrom(options));
    const auto begin = std::chrono::steady_clock::now();
    PIPER_ASSIGN(SearchResult result, searchPlans(space, threadedFor()));
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (json)
        printJson(searchJson(result));
    else
        printSearch(result);
    if (result.plans.empty()) return 1;
    if (!options.output.empty())
        PIPER_TRY(
            writeTextFile(options.output, writePlan(result.plans.front().plan).dump(2) + "\n"));
    return 0;
}

}  // namespace

void addSearch(CommandSet& commands) {
    const auto options = std::make_shared<SearchOptions>();
    CLI::App& app =
        commands.add("search", "Feasible plans of a model on a cluster, best first",
                     [options, &commands] { return runSearch(*options, commands.json()); });
    addWorkloadOptions(app, options->workload);
    app.add_option("--fix", options->fixed,
                   "Dimensions decided already: \"tp=2 micro_batch_size=1\"");
    app.add_option("--objective", options->objective,
                   "mfu, tokens_per_second, cost_per_token or memory_headroom")
        ->capture_default_str();
    app.add_option("--max-world", options->max_world, "Devices to use at most");
    app.add_option("--top", options->top, "Plans to print")->capture_default_str();
    app.add_option("-o,--output", options->output, "Write the best plan to this file");
}

}  // namespace piper::app
